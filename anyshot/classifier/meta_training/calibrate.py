"""How sure to be is learned here. It must hold on sets never met, so its margins are what sets left out ask for.

With each set left out in turn the linear models are learned from the others; the misses on the set left out say how
far the guess of a task's accuracy can be trusted, and give the width of the intervals, the threshold for unknown
images, and what counts as a usual task. The models that are kept are learned from all sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.classifier.confidence.expected_accuracy import (
    DEVIATIONS,
    LEVEL,
    SEEN,
    angle_of,
    task_evidence,
)
from anyshot.classifier.confidence.model import ConfidenceModel, class_evidence, task_descriptor
from anyshot.classifier.confidence.unknown_images import unknown_features
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.meta_training.episodes import Episode

KEPT = 0.95  # share of the images of known classes that the threshold lets pass, and of usual tasks
ASKED = 60  # images of a task that are looked at for novelty
RIDGE = 1e-2  # of the guess of a task's accuracy


@dataclass(frozen=True)
class TaskRecord:
    """What a task of a set said of itself when it was learned, and how it went."""

    set: str
    evidence: Tensor  # of the task, and of its classes [C, OWN]
    classes: Tensor
    shape: Tensor
    accuracy: Tensor  # its angle, of so many images
    asked: Tensor
    shares: Tensor  # [C], of hits
    inside: Tensor  # clues [m, CLUES] of images of its classes, and [k, CLUES] of others
    outside: Tensor


def train_confidence_model(
    learner: Learner, episodes: Iterable[tuple[str, Episode]]
) -> ConfidenceModel:
    """How sure to be, from episodes with the names of their sets."""
    outlook, judged = (
        ConfidenceModel(),
        [_judge(learner, name, episode) for name, episode in episodes],
    )
    _learn_accuracy(outlook, judged)
    _learn_unknown(outlook, judged)
    _learn_usual(outlook, judged)
    return outlook.requires_grad_(False)


def _judge(learner: Learner, name: str, e: Episode) -> TaskRecord:
    adapted = learner.adapt(e.support, e.labels)
    hits = (adapted(e.query).argmax(1) == e.query_labels).double()
    asked = hits.new_tensor(len(hits))
    shares = torch.stack([hits[e.query_labels == c].mean() for c in range(adapted.support.way)])
    some = torch.arange(len(hits))[:: max(1, len(hits) // ASKED)]
    return TaskRecord(
        name, task_evidence(adapted), class_evidence(adapted), task_descriptor(adapted), angle_of(hits.sum(), asked), asked,
        shares, unknown_features(adapted, e.query[some]), unknown_features(adapted, e.others),
    )  # fmt: skip


def _learn_accuracy(outlook: ConfidenceModel, judged: Sequence[TaskRecord]) -> None:
    """The guess, by least squares; how it and the images left out weigh, by likelihood where its set was left out.

    −log p = ½ log v + (y − mean)² / 2v, for the angle y of the accuracy. The margin holds LEVEL of the tasks then.
    Every set counts the same.
    """
    accuracy = outlook.accuracy
    x, y, asked = (
        torch.stack([getattr(j, part) for j in judged]).float()
        for part in ("evidence", "accuracy", "asked")
    )
    usual, weight, guess = x[:, SEEN:], _even(judged), torch.zeros_like(y)
    for own, others in _left_out(judged):
        guess[own] = _predict(_least_squares(usual[others], y[others], weight[others]), usual[own])

    def loss() -> Tensor:
        mean, variance = accuracy(x, guess, asked)
        return (weight * (variance.log() + (y - mean).square() / variance)).sum() / 2

    _minimise([accuracy.mend, accuracy.blur, accuracy.doubt], loss)
    with torch.no_grad():
        mean, variance = accuracy(x, guess, asked)
    accuracy.margin.fill_(_quantile((y - mean).abs() / variance.sqrt(), weight, LEVEL) / DEVIATIONS)
    _fill(accuracy.guess, _least_squares(usual, y, weight))
    _learn_classes(outlook.own, judged, mean, weight)


def _learn_classes(
    module: nn.Linear, judged: Sequence[TaskRecord], mean: Tensor, weight: Tensor
) -> None:
    """How the logit of a class differs from that of its task; within a task all classes count the same."""
    ways = torch.tensor([len(j.shares) for j in judged])
    level = mean.clamp(0, torch.pi / 2).sin().square().logit(0.01).repeat_interleave(ways)
    weight = (weight / ways).repeat_interleave(ways)
    rows, shares = (
        torch.cat([getattr(j, part) for j in judged]).float() for part in ("classes", "shares")
    )

    def loss() -> Tensor:
        logits = level + module(rows)[:, 0]
        return F.binary_cross_entropy_with_logits(logits, shares, weight, reduction="sum")

    _minimise(module.parameters(), loss)


def _learn_unknown(outlook: ConfidenceModel, judged: Sequence[TaskRecord]) -> None:
    """The odds; the threshold keeps KEPT of the images that belong, in sets left out."""
    scores = []
    for own, others in _left_out(judged):
        _learn_odds(outlook.unknown, [judged[i] for i in others])
        with torch.no_grad():
            scores.append(outlook.unknown(torch.cat([judged[i].inside for i in own]).float())[:, 0])
    _learn_odds(outlook.unknown, judged)
    outlook.threshold.fill_(torch.stack([s.sigmoid().quantile(KEPT) for s in scores]).mean())


def _learn_odds(module: nn.Linear, judged: Sequence[TaskRecord]) -> None:
    """Inside and outside, and within both every task, count the same."""
    both = [
        [getattr(j, side).float() for j in judged if len(j.outside)]
        for side in ("inside", "outside")
    ]
    x = torch.cat([rows for side in both for rows in side])
    weight = torch.cat(
        [torch.full((len(rows),), 0.5 / len(rows) / len(side)) for side in both for rows in side]
    )
    truth = (torch.arange(len(x)) >= sum(map(len, both[0]))).float()
    _minimise(
        module.parameters(),
        lambda: F.binary_cross_entropy_with_logits(module(x)[:, 0], truth, weight, reduction="sum"),
    )


def _learn_usual(outlook: ConfidenceModel, judged: Sequence[TaskRecord]) -> None:
    """Mean and spread of the tasks' shapes, scaled so that KEPT of the tasks of sets left out are within 1."""
    x = torch.stack([j.shape for j in judged])
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


def _left_out(judged: Sequence[TaskRecord]) -> Iterator[tuple[list[int], list[int]]]:
    """For each set, the numbers of its tasks and of those of the others; of one set alone, all twice."""
    names = sorted({j.set for j in judged})
    for name in names:
        own = [i for i, j in enumerate(judged) if j.set == name]
        yield own, [i for i, j in enumerate(judged) if j.set != name] or own


def _even(judged: Sequence[TaskRecord]) -> Tensor:
    """Weights of tasks by which every set counts the same; their sum is 1."""
    tasks = Counter(j.set for j in judged)
    return torch.tensor([1 / tasks[j.set] / len(tasks) for j in judged])


def _quantile(values: Tensor, weight: Tensor, share: float) -> Tensor:
    """The least value that is not below that share of the weight."""
    order = values.argsort()
    reached = weight[order].cumsum(0) >= share * weight.sum() - 1e-6
    return values[order][reached][0]


def _least_squares(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Weights and, last, the constant: the least of the mean square and RIDGE of their squares."""
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    w = weight / weight.sum()
    return torch.linalg.solve(
        x.t() @ (w[:, None] * x) + RIDGE * torch.eye(x.shape[1]).to(x), x.t() @ (w * y)
    )


def _predict(weights: Tensor, x: Tensor) -> Tensor:
    return x @ weights[:-1] + weights[-1]


def _fill(module: nn.Linear, weights: Tensor) -> None:
    with torch.no_grad():
        module.weight.copy_(weights[None, :-1])
        module.bias.copy_(weights[-1:])


def _minimise(parameters: Iterable[Tensor], loss: Callable[[], Tensor]) -> None:
    """A smooth loss of a few numbers."""
    numbers = list(parameters)
    optimiser = torch.optim.LBFGS(numbers, max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss() + 1e-4 * torch.cat([p.flatten() for p in numbers]).square().sum()
        value.backward()
        return value

    optimiser.step(closure)
