"""A temperature that makes probabilities mean what they say, fitted to tasks of classes not learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from anyshot.core.parallel.collectives import map_and_gather
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import predict_task
from anyshot.methods import Method

LIMITS = (0.02, 50.0)  #: beyond, probabilities are all alike, or 0 and 1


def fit_temperature(
    probabilities: Sequence[NDArray[np.floating]], labels: Sequence[NDArray[np.int64]]
) -> float:
    """The T that minimises the mean −log p(label) of p^(1/T) / Σ p^(1/T), for arrays [M, way] of one or more tasks.

    That is a convex function of 1/T, so there is one minimum.

    >>> p = np.array([[0.9, 0.1]] * 10)  # says nine of ten, and is right in six of ten
    >>> sure = fit_temperature([p], [np.array([0] * 6 + [1] * 4)])
    >>> round(0.9 ** (1 / sure) / (0.9 ** (1 / sure) + 0.1 ** (1 / sure)), 3)
    0.6
    """
    logs = [np.log(np.maximum(p, np.finfo(p.dtype).tiny)).astype(np.float64) for p in probabilities]
    own = [log[np.arange(len(y)), y] for log, y in zip(logs, labels, strict=True)]

    def nll(inverse: float) -> float:
        sums = [
            np.logaddexp.reduce(inverse * log, axis=1) - inverse * at
            for log, at in zip(logs, own, strict=True)
        ]
        return float(np.concatenate(sums).mean())

    low, high = LIMITS
    found = minimize_scalar(
        nll, bounds=(1 / high, 1 / low), method="bounded", options={"xatol": 1e-6}
    )
    return 1 / float(found.x)


def calibrated(
    method: Method,
    streams: Sequence[TaskStream],
    tasks: int,
    prediction: str | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] = lambda n: None,
) -> float:
    """The temperature of a method (at 1 now) on the first ``tasks`` tasks of each stream."""
    asked = [(stream, index) for stream in streams for index in range(tasks)]
    results = map_and_gather(
        lambda pair: predict_task(method, *pair, prediction), asked, workers, advance
    )
    return fit_temperature(
        [np.asarray(r.probabilities) for r in results], [np.asarray(r.labels) for r in results]
    )
