"""Meta-training of the learner on features: a task is a small matrix, so a minute or two is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from anyshot.heads.episodes import Prepared
from anyshot.heads.learner import Learner
from anyshot.tasks import torch_rng

ITERATIONS = 400
BATCH = 8  # tasks, drawn from different sets
RATE = 0.01


def query_loss(learner: Learner, task: Prepared) -> Tensor:
    """Mean −log p(true class) of the query images."""
    heads, _, weights = learner.fit(task.support, task.fixed)
    log_p = weights(torch.stack([head(task.query) for head in heads]))
    return -log_p[torch.arange(len(task.query_labels)), task.query_labels].mean()


def meta_train(
    sets: Sequence[Sequence[Prepared]],
    iterations: int = ITERATIONS,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
) -> Learner:
    """A learner from the tasks of several sets, each set counting the same; Adam, the rate falling to nothing."""
    learner, rng = Learner(), torch_rng(seed, "heads")
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
