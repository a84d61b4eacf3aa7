"""How sure to be is learned here. It must hold on sets never met, so its margins are what sets left out ask for.

With each set left out in turn the linear models are learned from the others; the misses on the set left out give the
width of the intervals, the threshold for unknown images, and what counts as a usual task. The models that are kept are
learned from all sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.heads.episodes import Episode
from anyshot.heads.learner import Adapted, Learner
from anyshot.heads.novelty import novelty
from anyshot.heads.outlook import DEVIATIONS, LEVEL, Outlook, class_evidence, shape, task_evidence

KEPT = 0.95  # share of the images of known classes that the threshold lets pass, and of usual tasks
ASKED = 60  # images of a task that are looked at for novelty


@dataclass(frozen=True)
class Judged:
    """A task of a set, learned, and how it went."""

    set: str
    adapted: Adapted
    accuracy: Tensor  # logit
    shares: Tensor  # [C], of hits
    inside: Tensor  # clues [m, CLUES] of images of its classes, and [k, CLUES] of others
    outside: Tensor


def learn_outlook(learner: Learner, episodes: Sequence[tuple[str, Episode]]) -> Outlook:
    """How sure to be, from episodes with the names of their sets, as many of each."""
    outlook, judged = Outlook(), [_judge(learner, name, episode) for name, episode in episodes]
    _learn_accuracy(outlook, judged)
    _learn_unknown(outlook, judged)
    _learn_usual(outlook, judged)
    return outlook.requires_grad_(False)


def _judge(learner: Learner, name: str, e: Episode) -> Judged:
    adapted = learner.adapt(e.support, e.labels)
    hits = (adapted(e.query).argmax(1) == e.query_labels).double()
    shares = torch.stack([hits[e.query_labels == c].mean() for c in range(adapted.support.way)])
    some = torch.arange(len(hits))[:: max(1, len(hits) // ASKED)]
    return Judged(
        name, adapted, torch.logit((hits.sum() + 0.5) / (len(hits) + 1)), shares,
        novelty(adapted, e.query[some]), novelty(adapted, e.others),
    )  # fmt: skip


def _learn_accuracy(outlook: Outlook, judged: Sequence[Judged]) -> None:
    """The logit of a task's accuracy; how far off it is on sets left out, LEVEL of whose tasks it holds; each class."""
    x = torch.stack([task_evidence(j.adapted) for j in judged])
    y = torch.stack([j.accuracy for j in judged])
    missed = torch.zeros_like(y)
    for own, others in _left_out(judged):
        missed[own] = (_predict(_least_squares(x[others], y[others]), x[own]) - y[own]).abs()
    _fill(outlook.level, _least_squares(x, y))
    doubt = _least_squares(x, missed.clamp_min(0.05).log())
    held = (missed / _predict(doubt, x).exp()).quantile(LEVEL) / DEVIATIONS
    doubt[-1] += held.log()
    _fill(outlook.doubt, doubt)
    level = _predict(_least_squares(x, y), x)
    rows = torch.cat([class_evidence(j.adapted, float(mu)) for j, mu in zip(judged, level, strict=True)]).float()
    shares = torch.cat([j.shares for j in judged]).float()
    _minimise(outlook.own, lambda: F.binary_cross_entropy_with_logits(outlook.own(rows)[:, 0], shares))


def _learn_unknown(outlook: Outlook, judged: Sequence[Judged]) -> None:
    """The odds; the threshold keeps KEPT of the images that belong, in sets left out."""
    scores = []
    for own, others in _left_out(judged):
        _learn_odds(outlook.unknown, [judged[i] for i in others])
        with torch.no_grad():
            scores.append(outlook.unknown(torch.cat([judged[i].inside for i in own]).float())[:, 0])
    _learn_odds(outlook.unknown, judged)
    outlook.threshold.fill_(torch.stack([s.sigmoid().quantile(KEPT) for s in scores]).mean())


def _learn_odds(module: nn.Linear, judged: Sequence[Judged]) -> None:
    """Inside and outside, and within both every task, count the same."""
    both = [[getattr(j, side).float() for j in judged if len(j.outside)] for side in ("inside", "outside")]
    x = torch.cat([rows for side in both for rows in side])
    weight = torch.cat([torch.full((len(rows),), 0.5 / len(rows) / len(side)) for side in both for rows in side])
    truth = (torch.arange(len(x)) >= sum(map(len, both[0]))).float()
    _minimise(module, lambda: F.binary_cross_entropy_with_logits(module(x)[:, 0], truth, weight, reduction="sum"))


def _learn_usual(outlook: Outlook, judged: Sequence[Judged]) -> None:
    """Mean and spread of the tasks' shapes, scaled so that KEPT of the tasks of sets left out are within 1."""
    x = torch.stack([shape(j.adapted) for j in judged])
    away = torch.zeros(len(x)).to(x)
    for own, others in _left_out(judged):
        mean, spread = _whitener(x[others])
        away[own] = ((x[own] - mean) @ spread).norm(dim=1)
    mean, spread = _whitener(x)
    outlook.usual.copy_(mean)
    outlook.spread.copy_(spread / away.quantile(KEPT))


def _whitener(x: Tensor) -> tuple[Tensor, Tensor]:
    lower = torch.linalg.cholesky(x.t().cov() + 1e-3 * torch.eye(x.shape[1]).to(x))
    return x.mean(0), torch.linalg.inv(lower).t()


def _left_out(judged: Sequence[Judged]) -> Iterator[tuple[list[int], list[int]]]:
    """For each set, the numbers of its tasks and of those of the others; of one set alone, all twice."""
    names = sorted({j.set for j in judged})
    for name in names:
        own = [i for i, j in enumerate(judged) if j.set == name]
        yield own, [i for i, j in enumerate(judged) if j.set != name] or own


def _least_squares(x: Tensor, y: Tensor) -> Tensor:
    """Weights and, last, the constant."""
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    return torch.linalg.solve(x.t() @ x + 1e-2 * torch.eye(x.shape[1]).to(x), x.t() @ y)


def _predict(weights: Tensor, x: Tensor) -> Tensor:
    return x @ weights[:-1] + weights[-1]


def _fill(module: nn.Linear, weights: Tensor) -> None:
    with torch.no_grad():
        module.weight.copy_(weights[None, :-1])
        module.bias.copy_(weights[-1:])


def _minimise(module: nn.Module, loss: Callable[[], Tensor]) -> None:
    """A convex loss of a few numbers."""
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss() + 1e-4 * torch.cat([p.flatten() for p in module.parameters()]).square().sum()
        value.backward()
        return value

    optimiser.step(closure)
