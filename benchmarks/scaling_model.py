"""What more ranks would give: a model of one meta-iteration, made of what was measured on two.

    T(P) = draw · M  +  E max over ranks Σ (a + b N)  +  apply  +  λ · messages  +  bytes · (1 / bandwidth + c)

M tasks are dealt to P ranks by their cost; a task of N support images takes a + b N seconds. Every rank draws all tasks
(draw) and takes Adam's step (apply). Exchanging gradients takes four collective operations of P − 1 messages each, of
latency λ; a rank sends ((its tasks) + 1) · (P − 1) / P gradients, at the network's bandwidth and c seconds a byte of
its own work. A rank's link is its own, and messages of one operation are sent one after another: the worst case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from anyshot.core.parallel.scheduling import assign_longest_first, assign_round_robin, idle_share
from anyshot.core.random import numpy_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.settings import parse_shots

LATENCY = 1e-4  #: seconds, of a message between machines on Ethernet; assumed
COLLECTIVES = 4  #: of an iteration: two for the gradients, two for losses and times


@dataclass(frozen=True)
class Measured:
    """What the model is built from; seconds and bytes."""

    start: float  #: a, of a task
    slope: float  #: b, for each support image
    draw: float  #: for each task of the meta-batch
    apply: float
    gradient: int  #: bytes
    byte: float  #: c
    sizes: tuple[int, ...]  #: support images of many tasks


def drawn_sizes(shots: str, way: int = 5, tasks: int = 4096) -> tuple[int, ...]:
    """Support images of as many tasks, as a rule of shots draws them."""
    rule, least, most = parse_shots(shots)
    return tuple(
        int(SHOT_RULES[rule](numpy_rng(0, "sizes", i), way, least, most).sum())
        for i in range(tasks)
    )


def seconds(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """One iteration, on the mean over meta-batches of the measured sizes; ``bits`` a second between ranks."""
    longest = [
        max(sum(costs[i] for i in tasks) for tasks in assign_longest_first(costs, ranks))
        for costs in batches(m, meta_batch)
    ]
    return m.draw * meta_batch + fmean(longest) + m.apply + exchange(m, ranks, meta_batch, bits)


def exchange(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """Seconds of moving the gradients."""
    if ranks == 1:
        return 0.0
    sent = (-(-meta_batch // ranks) + 1) * m.gradient * (ranks - 1) / ranks
    return COLLECTIVES * (ranks - 1) * LATENCY + sent * (8 / bits + m.byte)


def efficiency(m: Measured, ranks: int, meta_batch: int, bits: float) -> float:
    """Speed-up over one rank, for each rank."""
    return seconds(m, 1, meta_batch, bits) / (ranks * seconds(m, ranks, meta_batch, bits))


def idle_shares(m: Measured, ranks: int, meta_batch: int) -> dict[str, float]:
    """How much of their time ranks wait, with tasks dealt by cost and in turn."""
    shares: dict[str, list[float]] = {"by cost": [], "in turn": []}
    for costs in batches(m, meta_batch):
        for name, dealt in (
            ("by cost", assign_longest_first(costs, ranks)),
            ("in turn", assign_round_robin(meta_batch, ranks)),
        ):
            shares[name].append(idle_share([sum(costs[i] for i in tasks) for tasks in dealt]))
    return {name: fmean(found) for name, found in shares.items()}


def batches(m: Measured, meta_batch: int) -> list[Sequence[float]]:
    """Costs of the tasks of many meta-batches."""
    costs = [m.start + m.slope * size for size in m.sizes]
    return [costs[i : i + meta_batch] for i in range(0, len(costs) - meta_batch + 1, meta_batch)]
