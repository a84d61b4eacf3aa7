"""Meta-training of the learner on features. A task is a small matrix, so minutes are enough.

First the heads are trained, by the log-probability of the query images. Then their outputs are
computed once, and the mixture network is trained on them. The confidence model comes last
(`anyshot.classifier.meta_training.calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.learner import Learner, apply_heads
from anyshot.classifier.heads.mixture import Mixture, class_evidence
from anyshot.classifier.heads.support_set import WithinClassDamping
from anyshot.classifier.meta_training.episodes import PreparedEpisode
from anyshot.core.random import torch_rng

HEAD_STEPS = 60  # more make the heads too sure on new sets
HEAD_RATE = 0.05  # learning rate
HEAD_IMAGES = 120  # support images of the tasks that the heads are trained on: small ones are quick
MIXTURE_STEPS = 240  # many more fit the mixture too closely to the sets that it is trained on
MIXTURE_RATE = 0.01
BATCH = 8  # tasks, from the data sets in turn
DECAY = 1e-3  # weight decay
LOWEST_LOG_PROBABILITY = -50.0  # lower ones are clipped

T = TypeVar("T")
Advance = Callable[..., None]


@dataclass(frozen=True)
class HeadOutputs:
    """A task as the mixture network sees it, with M query images.

    evidence [C, F]; log_probabilities [K, M, C] of the heads; labels [M]; counts [C].
    """

    evidence: Tensor
    log_probabilities: Tensor
    labels: Tensor
    counts: Tensor


def meta_train(
    sets: Sequence[Sequence[PreparedEpisode]],
    damping: WithinClassDamping | None = None,
    widths: Sequence[int] = (),
    head_steps: int = HEAD_STEPS,
    mixture_steps: int = MIXTURE_STEPS,
    seed: int = 0,
    advance: Advance | None = None,
    mixture_sets: Sequence[Sequence[PreparedEpisode]] = (),
) -> Learner:
    """Train a learner on tasks of several data sets, each set counting the same.

    `damping` is the one that the tasks were prepared with, `widths` are those of their blocks.
    The mixture is trained on `mixture_sets`; by default on the same tasks as the heads.
    """
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        learner = Learner(damping, widths)
    rng = torch_rng(seed, "heads")
    small = [[t for t in tasks if len(t.supports[0].labels) <= HEAD_IMAGES] for tasks in sets]
    _optimise(
        learner.learned,
        lambda task: heads_loss(learner, task),
        [tasks for tasks in small if tasks],
        head_steps,
        HEAD_RATE,
        rng,
        advance,
    )
    outputs = [
        [compute_head_outputs(learner, task) for task in tasks] for tasks in mixture_sets or sets
    ]
    mixture = learner.mixture
    _optimise(
        mixture,
        lambda task: mixture_loss(mixture, task),
        outputs,
        mixture_steps,
        MIXTURE_RATE,
        rng,
        advance,
    )
    return learner


def heads_loss(learner: Learner, task: PreparedEpisode) -> Tensor:
    """Mean negative log-likelihood of the query images, over the heads that learn."""
    heads, _ = learner.fit_heads(task.supports, task.fixed)
    outputs = apply_heads(heads, task.queries)[len(task.fixed) :]
    return _negative_log_likelihood(outputs, task.query_labels).mean()


def mixture_loss(mixture: Mixture, task: HeadOutputs) -> Tensor:
    """Negative log-likelihood of the query images by the mixture, the mean of two readings.

    Even: the classes are equally common. As given: they are as common as in the support set, both
    among the images and, by Bayes' rule, in the probabilities.
    """
    even = mixture(task.evidence, task.counts)(task.log_probabilities)
    total = torch.zeros(())
    for shares in (torch.ones_like(task.counts), task.counts):
        mixed = (even + (shares / shares.sum()).log()).log_softmax(1)
        weights = (shares / torch.bincount(task.labels, minlength=len(shares)))[task.labels]
        losses = _negative_log_likelihood(mixed, task.labels)
        total = total + (weights * losses).sum() / weights.sum() / 2
    return total


@torch.no_grad()
def compute_head_outputs(learner: Learner, task: PreparedEpisode) -> HeadOutputs:
    """The heads' outputs on the query images, and the mixture's evidence about the heads."""
    heads, held_out = learner.fit_heads(task.supports, task.fixed)
    return HeadOutputs(
        evidence=class_evidence(task.supports[0], held_out),
        log_probabilities=apply_heads(heads, task.queries),
        labels=task.query_labels,
        counts=task.supports[0].counts,
    )


def _negative_log_likelihood(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    truth = log_probabilities[..., torch.arange(len(labels)), labels]
    return -truth.clamp_min(LOWEST_LOG_PROBABILITY)


def _optimise(
    module: nn.Module,
    loss: Callable[[T], Tensor],
    sets: Sequence[Sequence[T]],
    steps: int,
    rate: float,
    rng: torch.Generator,
    advance: Advance | None,
) -> None:
    """AdamW with a cosine schedule on batches of tasks; the module is frozen afterwards."""
    optimiser = torch.optim.AdamW(module.parameters(), rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        total = 0.0
        for task in _sample_batch(sets, step, rng):
            value = loss(task) / BATCH
            value.backward()
            total += float(value.detach())
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if advance:
            advance(1, note=f"loss {total:.3f}")
    module.requires_grad_(False)


def _sample_batch(sets: Sequence[Sequence[T]], step: int, rng: torch.Generator) -> Iterable[T]:
    """BATCH tasks, from the data sets in turn."""
    for b in range(BATCH):
        tasks = sets[(step * BATCH + b) % len(sets)]
        yield tasks[int(torch.randint(len(tasks), (), generator=rng))]
