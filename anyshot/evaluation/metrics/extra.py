"""Additional metrics: functions of one task's predictions, averaged over tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import CodeError

#: probabilities [M, C], labels [M], support images of each class [C] → a number
Metric = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]], float]


def brier(p: NDArray[np.float64], labels: NDArray[np.int64], shots: NDArray[np.int64]) -> float:
    """Brier score: mean squared distance of probabilities and truth, from 0 (best) to 2.

    >>> brier(np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([0, 1]), np.array([1, 1]))
    0.29
    """
    return float(((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1).mean())


def compute_extra_metrics(metrics: Mapping[str, Metric], *predictions: Any) -> dict[str, float]:
    """The value of each metric for one task; ``predictions`` are the arguments of a metric."""
    values = {}
    for name, metric in metrics.items():
        value = metric(*predictions)
        if not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise CodeError(
                f"The metric {name!r} returned {value!r} for a task; expected a finite number."
            )
        values[name] = float(value)
    return values
