"""Assign tasks to ranks by predicted cost, so that no rank waits long for the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

MEMORY = 64  #: number of measurements that the cost model uses


def assign_longest_first(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """Return the tasks of each rank; the costliest remaining task goes to the least loaded rank.

    >>> assign_longest_first([1, 5, 3, 2], ranks=2)
    [[0, 1], [2, 3]]
    """
    loads = [0.0] * ranks
    assigned: list[list[int]] = [[] for _ in range(ranks)]
    for task in sorted(range(len(costs)), key=lambda i: -costs[i]):
        rank = loads.index(min(loads))
        loads[rank] += costs[task]
        assigned[rank].append(task)
    return [sorted(tasks) for tasks in assigned]


@dataclass
class CostModel:
    """Predicts the seconds of a task as a + b · size, fitted to the last measurements."""

    #: (size, seconds)
    measurements: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def update(self, size: float, seconds: float) -> None:
        """Add a measurement."""
        self.measurements.append((size, seconds))

    def coefficients(self) -> tuple[float, float]:
        """Return a and b by least squares; (0, 1) as long as the measurements determine no line."""
        if len({size for size, _ in self.measurements}) < 2:
            return 0.0, 1.0
        mean_size = fmean(size for size, _ in self.measurements)
        mean_seconds = fmean(seconds for _, seconds in self.measurements)
        covariance = sum((x - mean_size) * (y - mean_seconds) for x, y in self.measurements)
        slope = covariance / sum((x - mean_size) ** 2 for x, _ in self.measurements)
        return (mean_seconds - slope * mean_size, slope) if slope > 0 else (0.0, 1.0)

    def predict(self, sizes: Sequence[float]) -> list[float]:
        """Return the predicted cost of tasks of these sizes, at least b for each."""
        intercept, slope = self.coefficients()
        return [max(intercept + slope * size, slope) for size in sizes]
