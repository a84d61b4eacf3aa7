"""Which rank does which task: dealt by what the tasks will cost, so that none waits long for the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

MEMORY = 64  #: tasks whose times are remembered


def assign_longest_first(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """The tasks of each rank: the most expensive first, always to the rank that has the least to do so far.

    >>> deal([1, 5, 3, 2], ranks=2)
    [[0, 1], [2, 3]]
    """
    loads, dealt = [0.0] * ranks, [[] for _ in range(ranks)]  # type: tuple[list[float], list[list[int]]]
    for task in sorted(range(len(costs)), key=lambda i: -costs[i]):
        rank = loads.index(min(loads))
        loads[rank] += costs[task]
        dealt[rank].append(task)
    return [sorted(tasks) for tasks in dealt]


def assign_round_robin(tasks: int, ranks: int) -> list[list[int]]:
    """Without a look at the costs; even over many tasks.

    >>> deal_in_turn(5, ranks=2)
    [[0, 2, 4], [1, 3]]
    """
    return [list(range(rank, tasks, ranks)) for rank in range(ranks)]


def idle_share(loads: Sequence[float]) -> float:
    """The share of the ranks' time that they wait for the slowest.

    >>> idle([4, 3, 2])
    0.25
    """
    return 1 - sum(loads) / (len(loads) * max(loads)) if max(loads) else 0.0


@dataclass
class CostModel:
    """Seconds of a task as a + b · (its size): the line through the last measurements, by least squares."""

    recent: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=MEMORY)
    )  #: sizes and seconds

    def update(self, size: float, seconds: float) -> None:
        """One measurement more."""
        self.recent.append((size, seconds))

    def coefficients(self) -> tuple[float, float]:
        """a and b; as long as nothing is known the cost is the size."""
        if len({size for size, _ in self.recent}) < 2:
            return 0.0, 1.0
        x, y = (fmean(values) for values in zip(*self.recent, strict=True))
        slope = sum((a - x) * (b - y) for a, b in self.recent) / sum(
            (a - x) ** 2 for a, _ in self.recent
        )
        return (y - slope * x, slope) if slope > 0 else (0.0, 1.0)

    def predict(self, sizes: Sequence[float]) -> list[float]:
        """What tasks of these sizes will cost, at least as much as one image more."""
        start, slope = self.coefficients()
        return [max(start + slope * size, slope) for size in sizes]
