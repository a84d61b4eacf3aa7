"""One task: from a method's probabilities to a few numbers that everything else is computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core.errors import AnyshotError
from anyshot.evaluation.metrics.extra import Metric, compute_extra_metrics

BINS = 15  # equal-width bins of the expected calibration error
_SMALLEST = float(
    np.finfo(np.float32).tiny
)  # a softmax that underflowed to 0 costs 87 nats, not infinitely many


@dataclass(frozen=True)
class TaskResult:
    """A method's answer to one task of C classes and M query images.

    index: the task's number, different for every task that enters the same metrics
    probabilities: [M, C]; labels: the true classes, int [M]; shots: support images of each class, int [C]
    classes: their names, where known; they tell whether two methods were given the same task
    """

    index: int
    probabilities: ArrayLike
    labels: ArrayLike
    shots: ArrayLike
    classes: Sequence[str] = ()


@dataclass(frozen=True)
class TaskScore:
    """One task in numbers; tuples run over its classes."""

    index: int
    classes: tuple[str, ...]
    shots: tuple[int, ...]  # support images
    asked: tuple[int, ...]  # query images
    hits: tuple[int, ...]  # query images that were recognised
    nll: float  # mean −log p(true class)
    failed: bool  # some prediction was not finite
    more: dict[str, float] = field(default_factory=dict)  # metrics that were asked for besides

    @property
    def accuracy(self) -> float:
        """Share of the query images that were recognised."""
        return sum(self.hits) / sum(self.asked)

    @property
    def worst_class(self) -> float:
        """The lowest recall of a class that was asked about."""
        return min(hits / asked for hits, asked in zip(self.hits, self.asked, strict=True) if asked)

    def same_task(self, other: TaskScore) -> bool:
        """Whether both are about the same task."""
        one, two = ((s.index, s.classes, s.shots, s.asked) for s in (self, other))
        return one == two

    def as_dict(self) -> dict[str, Any]:
        """One flat line for a table of tasks."""
        return {
            "task": self.index,
            "way": len(self.shots),
            "support": sum(self.shots),
            "queries": sum(self.asked),
            "accuracy": self.accuracy,
            "nll": self.nll,
            "worst_class": self.worst_class,
            **self.more,
            "failed": int(self.failed),
            "shots": " ".join(map(str, self.shots)),
            "hits": " ".join(map(str, self.hits)),
            "asked": " ".join(map(str, self.asked)),
            "classes": " | ".join(self.classes),
        }


def score_task(
    result: TaskResult, more: Mapping[str, Metric]
) -> tuple[TaskScore, NDArray[np.float64]]:
    """The task's score, with ``more`` metrics, and images, hits and summed confidence in each bin of confidence,
    [BINS, 3]."""
    p, labels, shots = _checked(result)
    finite = np.isfinite(p.sum(axis=1))
    p = np.where(finite[:, None], p, 1 / p.shape[1])
    confidence = p.max(axis=1)
    hit = (p.argmax(axis=1) == labels) & finite
    # bin b holds the confidences in (b/15, (b+1)/15]
    bins = np.minimum(np.ceil(confidence * BINS).astype(int) - 1, BINS - 1)
    score = TaskScore(
        index=result.index,
        classes=tuple(result.classes),
        shots=tuple(shots.tolist()),
        asked=tuple(np.bincount(labels, minlength=len(shots)).tolist()),
        hits=tuple(np.bincount(labels[hit], minlength=len(shots)).tolist()),
        nll=float(-np.log(np.maximum(p[np.arange(len(p)), labels], _SMALLEST)).mean()),
        failed=not finite.all(),
        more=compute_extra_metrics(more, p, labels, shots),
    )
    return score, np.stack([np.bincount(bins, w, BINS) for w in (None, hit, confidence)], axis=1)


def _checked(
    result: TaskResult,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    p, labels, shots = (
        np.asarray(result.probabilities, float),
        np.asarray(result.labels),
        np.asarray(result.shots),
    )
    where = f"Task {result.index}"
    if p.ndim != 2 or not p.size or labels.shape != p.shape[:1] or shots.shape != p.shape[1:]:
        raise AnyshotError(
            f"{where}: probabilities {p.shape}, labels {labels.shape} and shots {shots.shape} do not fit together; "
            "expected [images, classes], [images] and [classes]."
        )
    if labels.min() < 0 or labels.max() >= p.shape[1]:
        raise AnyshotError(
            f"{where}: labels {labels.min()} to {labels.max()}; expected 0 to {p.shape[1] - 1}."
        )
    if shots.min() < 1:
        raise AnyshotError(
            f"{where}: a class has {shots.min()} support images; expected at least 1."
        )
    rows = p[np.isfinite(p.sum(axis=1))]
    if rows.size and (rows.min() < 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-3):
        raise AnyshotError(
            f"{where}: probabilities must be at least 0 and sum to 1. Give the softmax, not the logits."
        )
    return p, labels.astype(np.int64), shots.astype(np.int64)
