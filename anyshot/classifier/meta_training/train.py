"""Meta-training of the learner on features: a task is a small matrix, so minutes are enough.

First what each head believes, by its own log-probability of the query images. Then, with the heads fixed, their answers
are computed once, and the mixture's net is learned from them. How sure to be comes last (`anyshot.classifier.meta_training.calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.mixture import Mixture, evidence
from anyshot.classifier.heads.support_set import WithinClassDamping
from anyshot.classifier.meta_training.episodes import PreparedEpisode
from anyshot.core.random import torch_rng

HEAD_STEPS, MIXTURE_STEPS = 60, 400
BATCH = 8  # tasks, from sets in turn
RATE = 0.01
DECAY = 1e-3  # of the net's weights
TILT = 0.15  # new images are taken to come from class c in proportion to n_c^TILT
SURPRISE = -50.0  # a log-probability counts no less than this

T = TypeVar("T")
Advance = Callable[..., None]


@dataclass(frozen=True)
class HeadOutputs:
    """A task as the mixture's net sees it: evidence [C, F]; of M query images the heads' answers [K, M, C] and labels.

    The weights [M] sum to 1.
    """

    evidence: Tensor
    answers: Tensor
    labels: Tensor
    weights: Tensor


def meta_train(
    sets: Sequence[Sequence[PreparedEpisode]],
    damping: WithinClassDamping | None = None,
    head_steps: int = HEAD_STEPS,
    mixture_steps: int = MIXTURE_STEPS,
    seed: int = 0,
    advance: Advance | None = None,
) -> Learner:
    """A learner from the tasks of several sets, each set counting the same; they were prepared with the damping."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        learner = Learner(damping)
    rng = torch_rng(seed, "heads")
    _descend(
        learner.learned, lambda task: heads_loss(learner, task), sets, head_steps, rng, advance
    )
    answered = [[compute_head_outputs(learner, task) for task in tasks] for tasks in sets]
    mixture = learner.mixture
    _descend(
        mixture, lambda task: mixture_loss(mixture, task), answered, mixture_steps, rng, advance
    )
    return learner


def heads_loss(learner: Learner, task: PreparedEpisode) -> Tensor:
    """Mean −log p(true class) of the query images, over the heads that learn."""
    answers = torch.stack([head(task.support)[0](task.query) for head in learner.learned])
    return _surprise(answers, task.query_labels).mean()


def mixture_loss(mixture: Mixture, task: HeadOutputs) -> Tensor:
    """Weighted mean of −log p(true class) of the query images by the mixture."""
    return (task.weights * _surprise(mixture(task.evidence)(task.answers), task.labels)).sum()


@torch.no_grad()
def compute_head_outputs(learner: Learner, task: PreparedEpisode) -> HeadOutputs:
    """The heads' answers, and the evidence that the mixture has on them."""
    heads, held_out = learner.fit_heads(task.support, task.fixed)
    answers = torch.stack([head(task.query) for head in heads])
    weights = task.support.n[task.query_labels] ** TILT
    return HeadOutputs(
        evidence(task.support, held_out), answers, task.query_labels, weights / weights.sum()
    )


def _surprise(answers: Tensor, labels: Tensor) -> Tensor:
    return -answers[..., torch.arange(len(labels)), labels].clamp_min(SURPRISE)


def _descend(
    module: nn.Module,
    loss: Callable[[T], Tensor],
    sets: Sequence[Sequence[T]],
    steps: int,
    rng: torch.Generator,
    advance: Advance | None,
) -> None:
    """Adam on batches of tasks from the sets in turn, the rate falling to nothing; the module stands still after."""
    optimiser = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        total = 0.0
        for task in _some(sets, step, rng):
            value = loss(task) / BATCH
            value.backward()
            total += float(value.detach())
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if advance:
            advance(1, note=f"loss {total:.3f}")
    module.requires_grad_(False)


def _some(sets: Sequence[Sequence[T]], step: int, rng: torch.Generator) -> Iterable[T]:
    for b in range(BATCH):
        tasks = sets[(step * BATCH + b) % len(sets)]
        yield tasks[int(torch.randint(len(tasks), (), generator=rng))]
