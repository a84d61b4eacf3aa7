"""Temperature scaling, fitted to tasks of validation classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from anyshot.core.parallel.collectives import map_and_gather
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import predict_task
from anyshot.methods import Method

LIMITS = (0.02, 50.0)  #: beyond these temperatures, probabilities are 0 and 1, or all equal


def fit_temperature(
    probabilities: Sequence[NDArray[np.floating]], labels: Sequence[NDArray[np.int64]]
) -> float:
    """The temperature T that minimises the mean −log p(label) of p^(1/T) / Σ p^(1/T).

    ``probabilities`` are arrays [M, way] and ``labels`` arrays [M] of one or more tasks. The mean
    is a convex function of 1/T, so there is one minimum.

    >>> p = np.array([[0.9, 0.1]] * 10)  # predicts 90 %, but 6 of 10 are correct
    >>> t = fit_temperature([p], [np.array([0] * 6 + [1] * 4)])
    >>> round(0.9 ** (1 / t) / (0.9 ** (1 / t) + 0.1 ** (1 / t)), 3)
    0.6
    """
    from scipy.optimize import minimize_scalar  # slow to import

    logs = [np.log(np.maximum(p, np.finfo(p.dtype).tiny)).astype(np.float64) for p in probabilities]
    log_of_label = [log[np.arange(len(y)), y] for log, y in zip(logs, labels, strict=True)]

    def nll(inverse: float) -> float:
        losses = [
            np.logaddexp.reduce(inverse * log, axis=1) - inverse * true
            for log, true in zip(logs, log_of_label, strict=True)
        ]
        return float(np.concatenate(losses).mean())

    low, high = LIMITS
    minimum = minimize_scalar(
        nll, bounds=(1 / high, 1 / low), method="bounded", options={"xatol": 1e-6}
    )
    return 1 / float(minimum.x)


def calibrate_temperature(
    method: Method,
    streams: Sequence[TaskStream],
    tasks: int,
    prediction: str | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] = lambda n: None,
) -> float:
    """Fit the temperature of a method, which must be 1 now, to ``tasks`` tasks of each stream."""
    pairs = [(stream, index) for stream in streams for index in range(tasks)]
    results = map_and_gather(
        lambda pair: predict_task(method, *pair, prediction), pairs, workers, advance
    )
    return fit_temperature(
        [np.asarray(r.probabilities) for r in results], [np.asarray(r.labels) for r in results]
    )
