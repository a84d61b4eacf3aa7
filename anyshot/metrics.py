"""What a test says about a method: a few numbers, gathered task by task, on any number of workers.

>>> metrics = Metrics()
>>> metrics.update(TaskResult(0, [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1], shots=[1, 5]))
>>> metrics.update(TaskResult(1, [[0.4, 0.6], [0.1, 0.9]], labels=[0, 1], shots=[20, 5]))
>>> summary = metrics.compute()
>>> summary.accuracy, summary.worst_class, summary.by_shots["2-5"]
(0.75, 0.5, 1.0)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.errors import AnyshotError

BINS = 15  # equal-width bins of the expected calibration error
SHOTS = ("1", "2-5", "6-15", "16-50", ">50")  # ranges of support images a class
_SHOT_ENDS = np.array([1, 5, 15, 50])
_SMALLEST = float(np.finfo(np.float32).tiny)  # a softmax that underflowed to 0 costs 87 nats, not infinitely many


@dataclass(frozen=True)
class TaskResult:
    """A method's answer to one task of C classes and M query images.

    index: the task's number, different for every task that enters the same metrics
    probabilities: [M, C]; labels: the true classes, int [M]; shots: support images of each class, int [C]
    """

    index: int
    probabilities: ArrayLike
    labels: ArrayLike
    shots: ArrayLike


@dataclass(frozen=True)
class Summary:
    """A test in numbers; fractions, not per cent. None where there was nothing to measure."""

    tasks: int
    queries: int  # query images
    accuracy: float  # mean over tasks
    interval: float | None  # half-width of the 95 % interval: 1.96 · std / √tasks, std with ddof = 1
    nll: float  # mean over tasks of the mean −log p(true class)
    ece: float  # expected calibration error, 15 bins of the largest probability, over all query images
    worst_class: float  # mean over tasks of the lowest recall of a class
    by_shots: dict[str, float | None]  # accuracy over all query images whose class has so many support images
    failed: int  # tasks with predictions that are not finite: counted as wrong, and as even odds in nll and ece
    tasks_per_second: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)


def average(summaries: Sequence[Summary]) -> Summary:
    """The mean over several image sets, each counting the same, with the interval of that mean."""
    n = len(summaries)

    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return _mean(known) if known else None

    intervals = [s.interval for s in summaries if s.interval is not None]
    return Summary(
        tasks=sum(s.tasks for s in summaries),
        queries=sum(s.queries for s in summaries),
        accuracy=_mean(s.accuracy for s in summaries),
        interval=math.hypot(*intervals) / n if len(intervals) == n else None,
        nll=_mean(s.nll for s in summaries),
        ece=_mean(s.ece for s in summaries),
        worst_class=_mean(s.worst_class for s in summaries),
        by_shots={name: mean(s.by_shots[name] for s in summaries) for name in SHOTS},
        failed=sum(s.failed for s in summaries),
        tasks_per_second=mean(s.tasks_per_second for s in summaries),
    )


@dataclass(frozen=True)
class _Row:
    """One task, boiled down. calibration: images, hits, confidence in each bin; shots: images, hits in each range."""

    accuracy: float
    nll: float
    worst_class: float
    calibration: NDArray[np.float64]  # [BINS, 3]
    shots: NDArray[np.int64]  # [len(SHOTS), 2]
    failed: bool


class Metrics:
    """Accumulates task results. The order of tasks, and how they were spread over workers, changes no bit."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def reset(self) -> None:
        """Forget every task."""
        self._rows.clear()

    def update(self, result: TaskResult) -> None:
        """Take in one task."""
        self._add(result.index, _measure(result))

    def merge(self, other: Metrics) -> None:
        """Take in all tasks of another worker."""
        for index, row in other._rows.items():
            self._add(index, row)

    def compute(self, seconds: float | None = None) -> Summary:
        """The summary of all tasks so far; `seconds` is how long they took."""
        if not self._rows:
            raise AnyshotError("No task has been measured, so there is nothing to summarise. Test at least one task.")
        rows = [self._rows[index] for index in sorted(self._rows)]
        n = len(rows)
        accuracy = _mean(row.accuracy for row in rows)
        deviation = math.sqrt(math.fsum((row.accuracy - accuracy) ** 2 for row in rows) / (n - 1)) if n > 1 else None
        images, hits = np.sum([row.shots for row in rows], axis=0).T.tolist()
        return Summary(
            tasks=n,
            queries=sum(images),
            accuracy=accuracy,
            interval=None if deviation is None else 1.96 * deviation / math.sqrt(n),
            nll=_mean(row.nll for row in rows),
            ece=_calibration_error(rows),
            worst_class=_mean(row.worst_class for row in rows),
            by_shots={
                name: hit / image if image else None for name, hit, image in zip(SHOTS, hits, images, strict=True)
            },
            failed=sum(row.failed for row in rows),
            tasks_per_second=n / seconds if seconds else None,
        )

    def _add(self, index: int, row: _Row) -> None:
        if index in self._rows:
            raise AnyshotError(f"Task {index} was measured twice; every task needs its own index.")
        self._rows[index] = row


def _measure(result: TaskResult) -> _Row:
    p, labels, shots = _checked(result)
    finite = np.isfinite(p.sum(axis=1))
    p = np.where(finite[:, None], p, 1 / p.shape[1])
    confidence = p.max(axis=1)
    hit = (p.argmax(axis=1) == labels) & finite
    # bin b holds the confidences in (b/15, (b+1)/15]
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    ranges = np.searchsorted(_SHOT_ENDS, shots[labels])
    asked = np.bincount(labels, minlength=len(shots))
    recall = np.bincount(labels, hit, len(shots))[asked > 0] / asked[asked > 0]
    return _Row(
        accuracy=float(hit.mean()),
        nll=float(-np.log(np.maximum(p[np.arange(len(p)), labels], _SMALLEST)).mean()),
        worst_class=float(recall.min()),
        calibration=np.stack([np.bincount(bins, w, BINS) for w in (None, hit, confidence)], axis=1),
        shots=np.stack([np.bincount(ranges, w, len(SHOTS)) for w in (None, hit)], axis=1).astype(np.int64),
        failed=not finite.all(),
    )


def _checked(result: TaskResult) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    p, labels, shots = np.asarray(result.probabilities, float), np.asarray(result.labels), np.asarray(result.shots)
    where = f"Task {result.index}"
    if p.ndim != 2 or not p.size or labels.shape != p.shape[:1] or shots.shape != p.shape[1:]:
        raise AnyshotError(
            f"{where}: probabilities {p.shape}, labels {labels.shape} and shots {shots.shape} do not fit together; "
            "expected [images, classes], [images] and [classes]."
        )
    if labels.min() < 0 or labels.max() >= p.shape[1]:
        raise AnyshotError(f"{where}: labels {labels.min()} to {labels.max()}; expected 0 to {p.shape[1] - 1}.")
    if shots.min() < 1:
        raise AnyshotError(f"{where}: a class has {shots.min()} support images; expected at least 1.")
    rows = p[np.isfinite(p.sum(axis=1))]
    if rows.size and (rows.min() < 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-3):
        raise AnyshotError(f"{where}: probabilities must be at least 0 and sum to 1. Give the softmax, not the logits.")
    return p, labels.astype(np.int64), shots.astype(np.int64)


def _calibration_error(rows: list[_Row]) -> float:
    """Σ_b |hits_b − confidence_b| / images."""
    cells = zip(*(row.calibration.ravel().tolist() for row in rows), strict=True)
    images, hits, confidence = np.array([math.fsum(cell) for cell in cells]).reshape(BINS, 3).T
    return math.fsum(np.abs(hits - confidence)) / math.fsum(images)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values)  # fsum rounds once, whatever the order
