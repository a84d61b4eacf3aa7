"""A model of one meta-iteration on P ranks, fitted to measurements of two.

    T(P) = draw · M  +  E max over ranks Σ (a + b N)  +  apply
           +  λ · messages  +  bytes · (1 / bandwidth + c)

M tasks are assigned to P ranks by cost; a task of N support images takes a + b N seconds. Every
rank draws all tasks (draw) and takes the optimizer's step (apply). The gradients are exchanged by
four collective operations of P − 1 messages each, with latency λ. A rank sends ((its tasks) + 1) ·
(P − 1) / P gradients, at the network's bandwidth and with c seconds a byte of its own work. Each
rank has its own link, and the messages of one operation are sent one after another: the worst case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from anyshot.core.parallel.scheduling import assign_longest_first
from anyshot.core.random import numpy_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.task_settings import parse_shots

LATENCY = 1e-4  #: seconds, of a message between machines on Ethernet; assumed
COLLECTIVES = 4  #: of an iteration: two for the gradients, two for losses and times


@dataclass(frozen=True)
class Measured:
    """The measurements that the model uses, in seconds and bytes."""

    start: float  #: a, of a task
    slope: float  #: b, for each support image
    draw: float  #: for each task of the meta-batch
    apply: float
    gradient: int  #: bytes
    byte: float  #: c
    sizes: tuple[int, ...]  #: support images of many tasks


def assign_round_robin(tasks: int, ranks: int) -> list[list[int]]:
    """Return the tasks of each rank, assigned in turn without regard to cost.

    >>> assign_round_robin(5, ranks=2)
    [[0, 2, 4], [1, 3]]
    """
    return [list(range(rank, tasks, ranks)) for rank in range(ranks)]


def idle_share(loads: Sequence[float]) -> float:
    """Return the share of the ranks' time that is spent waiting for the slowest rank.

    >>> idle_share([4, 3, 2])
    0.25
    """
    return 1 - sum(loads) / (len(loads) * max(loads)) if max(loads) else 0.0


def sample_sizes(shots: str, way: int = 5, tasks: int = 4096) -> tuple[int, ...]:
    """The numbers of support images of tasks that a shot rule draws."""
    rule, least, most = parse_shots(shots)
    return tuple(
        int(SHOT_RULES[rule](numpy_rng(0, "sizes", i), way, least, most).sum())
        for i in range(tasks)
    )


def seconds(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """Seconds of an iteration, the mean over meta-batches, at ``bits`` a second between ranks."""
    longest = [
        max(sum(costs[i] for i in tasks) for tasks in assign_longest_first(costs, ranks))
        for costs in batches(m, meta_batch)
    ]
    return m.draw * meta_batch + fmean(longest) + m.apply + exchange(m, ranks, meta_batch, bits)


def exchange(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """Seconds of the exchange of gradients."""
    if ranks == 1:
        return 0.0
    sent = (-(-meta_batch // ranks) + 1) * m.gradient * (ranks - 1) / ranks
    return COLLECTIVES * (ranks - 1) * LATENCY + sent * (8 / bits + m.byte)


def efficiency(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """The speed-up over one rank, divided by the number of ranks."""
    return seconds(m, 1, meta_batch, bits) / (ranks * seconds(m, ranks, meta_batch, bits))


def idle_shares(m: Measured, ranks: int, meta_batch: int) -> dict[str, float]:
    """The share of time that ranks wait, with tasks assigned by cost and in turn."""
    shares: dict[str, list[float]] = {"by cost": [], "in turn": []}
    for costs in batches(m, meta_batch):
        for name, assigned in (
            ("by cost", assign_longest_first(costs, ranks)),
            ("in turn", assign_round_robin(meta_batch, ranks)),
        ):
            shares[name].append(idle_share([sum(costs[i] for i in tasks) for tasks in assigned]))
    return {name: fmean(idle) for name, idle in shares.items()}


def batches(m: Measured, meta_batch: int) -> list[Sequence[float]]:
    """The costs of the tasks of many meta-batches."""
    costs = [m.start + m.slope * size for size in m.sizes]
    return [costs[i : i + meta_batch] for i in range(0, len(costs) - meta_batch + 1, meta_batch)]
