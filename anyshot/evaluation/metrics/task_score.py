"""One task: from probabilities to the few numbers that all other metrics are computed from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core.errors import DataError
from anyshot.evaluation.metrics.extra import Metric, compute_extra_metrics

BINS = 15  #: equal-width confidence bins of the expected calibration error
# A softmax that underflowed to 0 costs 87 nats instead of infinitely many.
_SMALLEST = float(np.finfo(np.float32).tiny)
# Keys in files of earlier versions -> attributes of TaskScore.
_OLD_KEYS = {"asked": "queries", "hits": "correct", "more": "extra"}


@dataclass(frozen=True)
class TaskResult:
    """A method's predictions for one task of C classes and M query images.

    Parameters
    ----------
    index : int
        Number of the task; tasks that enter the same metrics have different numbers.
    probabilities : array_like of float, shape (M, C)
        Predicted class probabilities of the query images.
    labels : array_like of int, shape (M,)
        True classes of the query images, 0 to C − 1.
    shots : array_like of int, shape (C,)
        Number of support images of each class.
    classes : sequence of str, length C, optional
        Names of the classes. They show whether two methods had the same task.

    Examples
    --------
    >>> import anyshot
    >>> metrics = anyshot.Metrics()
    >>> metrics.update(anyshot.TaskResult(0, [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1], shots=[1, 5]))
    >>> metrics.compute().accuracy
    1.0
    """

    index: int
    probabilities: ArrayLike
    labels: ArrayLike
    shots: ArrayLike
    classes: Sequence[str] = ()


@dataclass(frozen=True)
class TaskScore:
    """The numbers of one task of C classes.

    Attributes
    ----------
    index : int
        Number of the task.
    classes : tuple of str, length C
        Names of the classes; empty if they are unknown.
    shots : tuple of int, length C
        Support images of each class.
    queries : tuple of int, length C
        Query images of each class.
    correct : tuple of int, length C
        Correctly classified query images of each class.
    nll : float
        Mean −log p(true class) over the query images.
    failed : bool
        Whether some prediction was not finite.
    extra : dict of str to float
        Additional metrics by name.

    Examples
    --------
    >>> import anyshot
    >>> metrics = anyshot.Metrics()
    >>> metrics.update(anyshot.TaskResult(0, [[0.9, 0.1], [0.7, 0.3]], labels=[0, 1], shots=[1, 5]))
    >>> (score,) = metrics.compute().scores
    >>> score.correct, score.queries, score.accuracy, score.worst_class
    ((1, 0), (1, 1), 0.5, 0.0)
    """

    index: int
    classes: tuple[str, ...]
    shots: tuple[int, ...]
    queries: tuple[int, ...]
    correct: tuple[int, ...]
    nll: float
    failed: bool
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Share of the query images that are classified correctly."""
        return sum(self.correct) / sum(self.queries)

    @property
    def worst_class(self) -> float:
        """Lowest recall of a class that has query images."""
        pairs = zip(self.correct, self.queries, strict=True)
        return min(correct / queries for correct, queries in pairs if queries)

    def same_task(self, other: TaskScore) -> bool:
        """Whether both scores belong to the same task."""
        mine = (self.index, self.classes, self.shots, self.queries)
        return mine == (other.index, other.classes, other.shots, other.queries)

    def as_dict(self) -> dict[str, Any]:
        """One flat line for a table of tasks."""
        return {
            "task": self.index,
            "way": len(self.shots),
            "support": sum(self.shots),
            "queries": sum(self.queries),
            "accuracy": self.accuracy,
            "nll": self.nll,
            "worst_class": self.worst_class,
            **self.extra,
            "failed": int(self.failed),
            "shots": " ".join(map(str, self.shots)),
            "correct": " ".join(map(str, self.correct)),
            "queries_by_class": " ".join(map(str, self.queries)),
            "classes": " | ".join(self.classes),
        }

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TaskScore:
        """The score that :meth:`to_json` wrote, in this version or an earlier one."""
        fields: dict[str, Any] = {
            _OLD_KEYS.get(key, key): tuple(value) if isinstance(value, list) else value
            for key, value in values.items()
        }
        return cls(**fields)


def score_task(
    result: TaskResult, extra: Mapping[str, Metric]
) -> tuple[TaskScore, NDArray[np.float64]]:
    """Score one task, with ``extra`` metrics by name.

    Also returns, for each confidence bin, the number of images, the number of correct images and
    the sum of the confidences: an array [BINS, 3].
    """
    p, labels, shots = _validate(result)
    finite = np.isfinite(p.sum(axis=1))
    p = np.where(finite[:, None], p, 1 / p.shape[1])
    confidence = p.max(axis=1)
    correct = (p.argmax(axis=1) == labels) & finite
    # bin b holds the confidences in (b/15, (b+1)/15]
    bins = np.minimum(np.ceil(confidence * BINS).astype(int) - 1, BINS - 1)
    way = len(shots)
    score = TaskScore(
        index=result.index,
        classes=tuple(result.classes),
        shots=tuple(shots.tolist()),
        queries=tuple(np.bincount(labels, minlength=way).tolist()),
        correct=tuple(np.bincount(labels[correct], minlength=way).tolist()),
        nll=float(-np.log(np.maximum(p[np.arange(len(p)), labels], _SMALLEST)).mean()),
        failed=not finite.all(),
        extra=compute_extra_metrics(extra, p, labels, shots),
    )
    sums = [np.bincount(bins, weights, BINS) for weights in (None, correct, confidence)]
    return score, np.stack(sums, axis=1)


def _validate(
    result: TaskResult,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Probabilities, labels and shots as arrays whose shapes and values fit together."""
    p = np.asarray(result.probabilities, float)
    labels = np.asarray(result.labels)
    shots = np.asarray(result.shots)
    task = f"Task {result.index}"
    if p.ndim != 2 or not p.size or labels.shape != p.shape[:1] or shots.shape != p.shape[1:]:
        raise DataError(
            f"{task}: probabilities {p.shape}, labels {labels.shape} and shots {shots.shape} do "
            "not fit together; expected shapes (images, classes), (images,) and (classes,)."
        )
    if labels.min() < 0 or labels.max() >= p.shape[1]:
        raise DataError(
            f"{task}: labels from {labels.min()} to {labels.max()}; expected 0 to {p.shape[1] - 1}."
        )
    if shots.min() < 1:
        raise DataError(f"{task}: a class has {shots.min()} support images; expected at least 1.")
    rows = p[np.isfinite(p.sum(axis=1))]
    if rows.size and (rows.min() < 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-3):
        raise DataError(
            f"{task}: probabilities must be at least 0 and sum to 1; "
            "pass the softmax instead of the logits."
        )
    return p, labels.astype(np.int64), shots.astype(np.int64)
