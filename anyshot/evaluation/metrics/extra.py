"""Metrics beside those that every test has, each a function of one task's answers; tests give their mean over tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError

#: probabilities [M, C], labels [M], support images of each class [C] → a number
Metric = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]], float]


def brier(p: NDArray[np.float64], labels: NDArray[np.int64], shots: NDArray[np.int64]) -> float:
    """Brier score: the squared distance between probabilities and truth, 0 (best) to 2.

    >>> brier(np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([0, 1]), np.array([1, 1]))
    0.29
    """
    return float(((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1).mean())


def compute_extra_metrics(metrics: Mapping[str, Metric], *answers: Any) -> dict[str, float]:
    """Each metric of one task by name."""
    found = {}
    for name, metric in metrics.items():
        value = metric(*answers)
        if not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise AnyshotError(
                f"The metric {name!r} gave {value!r} for a task, but should give a finite number."
            )
        found[name] = float(value)
    return found
