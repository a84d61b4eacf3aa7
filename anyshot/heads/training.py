"""Meta-training of the learner on features: a task is a small matrix, so minutes are enough.

First the heads' beliefs and the mixture by the query images' log-probability; then, with these fixed, how sure to be:
expected accuracy by its likelihood, and unknown images by telling queries of the task's classes from images of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.heads.episodes import Episode, Prepared
from anyshot.heads.learner import Adapted, Learner
from anyshot.heads.outlook import DEVIATIONS, LEVEL, Outlook, class_evidence, novelty, task_evidence
from anyshot.tasks import torch_rng

ITERATIONS = 200
BATCH = 8  # tasks, from sets in turn
RATE = 0.01
ALONE = 0.3  # share of the heads' own losses: each must be worth its place
WIDER = 1.7  # intervals of sets never met must be wider than those of the sets learned from, by this on sets left out
KEPT = 0.95  # share of the images of known classes that the threshold lets pass


def query_loss(learner: Learner, task: Prepared) -> Tensor:
    """Mean −log p(true class) of the query images by the mixture and, with a share, by each learned head alone."""
    heads, _, weights = learner.fit(task.support, task.fixed)
    answers = torch.stack([head(task.query) for head in heads])
    own = answers[-len(learner.learned) :].clamp_min(-50)
    both = weights(answers) + ALONE * own.mean(0)
    return -both[torch.arange(len(task.query_labels)), task.query_labels].mean()


def meta_train(
    sets: Sequence[Sequence[Prepared]],
    iterations: int = ITERATIONS,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
) -> Learner:
    """A learner from the tasks of several sets, each set counting the same; Adam, the rate falling to nothing."""
    rng = torch_rng(seed, "heads")
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        learner = Learner()
    optimiser = torch.optim.Adam(learner.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, iterations)
    for step in range(iterations):
        optimiser.zero_grad()
        total = 0.0
        for b in range(BATCH):
            tasks = sets[(step * BATCH + b) % len(sets)]
            task = tasks[int(torch.randint(len(tasks), (), generator=rng))]
            loss = query_loss(learner, task) / BATCH
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if advance:
            advance(1, note=f"loss {total:.3f}")
    return learner.requires_grad_(False)


def learn_outlook(learner: Learner, episodes: Sequence[Episode]) -> Outlook:
    """How sure to be, from episodes as many of each set."""
    outlook = Outlook()
    answers = [(e, a, _hits(a, e)) for e in episodes for a in [learner.adapt(e.support, e.labels)]]
    _learn_accuracy(outlook, answers)
    inside = torch.cat([novelty(a, e.query) for e, a, _ in answers])
    outside = torch.cat([novelty(a, e.others) for e, a, _ in answers if len(e.others)])
    x = torch.cat([inside, outside])
    truth = torch.cat([torch.zeros(len(inside)), torch.ones(len(outside))])
    weight = torch.where(truth > 0, 0.5 / len(outside), 0.5 / len(inside))
    _minimise(outlook.unknown, lambda: F.binary_cross_entropy_with_logits(
        outlook.unknown(x)[:, 0], truth, weight, reduction="sum"))  # fmt: skip
    with torch.no_grad():
        outlook.threshold.fill_(outlook.unknown(inside)[:, 0].sigmoid().quantile(KEPT))
    return outlook.requires_grad_(False)


def _learn_accuracy(outlook: Outlook, answers: Sequence[tuple[Episode, Adapted, Tensor]]) -> None:
    """The logit of a task's accuracy, how far off it is (scaled to hold LEVEL of the tasks), and each class's odds."""
    x = torch.stack([task_evidence(a) for _, a, _ in answers])
    y = torch.stack([torch.logit((hits.sum() + 0.5) / (len(hits) + 1)) for _, _, hits in answers])
    _minimise(outlook.level, lambda: F.mse_loss(outlook.level(x)[:, 0], y))
    missed = (outlook.level(x)[:, 0].detach() - y).abs().clamp_min(0.05).log()
    _minimise(outlook.doubt, lambda: F.mse_loss(outlook.doubt(x)[:, 0], missed))
    with torch.no_grad():
        level, doubt = outlook.level(x)[:, 0], outlook.doubt(x)[:, 0].exp()
        held = ((y - level) / doubt).abs().quantile(LEVEL) / DEVIATIONS
        outlook.doubt.bias.add_((WIDER * held).log())
    rows = torch.cat([class_evidence(a, float(mu)) for (_, a, _), mu in zip(answers, level, strict=True)])
    shares = torch.cat([
        torch.stack([hits[e.query_labels == c].mean() for c in range(a.support.way)]) for e, a, hits in answers
    ])  # fmt: skip
    _minimise(outlook.own, lambda: F.binary_cross_entropy_with_logits(outlook.own(rows)[:, 0], shares))


def _hits(adapted: Adapted, episode: Episode) -> Tensor:
    return (adapted(episode.query).argmax(1) == episode.query_labels).float()


def _minimise(module: nn.Module, loss: Callable[[], Tensor]) -> None:
    """A convex or nearly convex loss of a few numbers."""
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss() + 1e-4 * torch.cat([p.flatten() for p in module.parameters()]).square().sum()
        value.backward()
        return value

    optimiser.step(closure)
