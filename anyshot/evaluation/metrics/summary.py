"""Many tasks: collect their scores on any number of workers and summarise them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.code_loading import check_call
from anyshot.core.errors import DataError, SettingsError
from anyshot.evaluation.metrics.extra import Metric
from anyshot.evaluation.metrics.task_score import BINS, TaskResult, TaskScore, score_task

if TYPE_CHECKING:
    import pandas as pd

SHOTS = ("1", "2-5", "6-15", "16-50", ">50")  #: ranges of support images of a class
_LAST_OF_RANGE = np.array([1, 5, 15, 50])
# Attributes of Summary -> keys in results files, where they differ.
_KEYS = {"extra": "more", "extra_intervals": "more_intervals"}


@dataclass(frozen=True)
class Summary:
    """The numbers of a test. Shares are fractions, not per cent; ``None`` stands for no data.

    Intervals are half-widths of 95 % intervals: 1.96 · std / √tasks, with ddof = 1.

    Attributes
    ----------
    tasks, queries : int
        Number of tasks and of query images.
    accuracy, interval : float
        Mean accuracy over tasks and its interval.
    nll, nll_interval : float
        Mean over tasks of the mean −log p(true class), and its interval.
    ece : float
        Expected calibration error: 15 bins of the largest probability, over all query images.
    worst_class : float
        Mean over tasks of the lowest recall of a class.
    by_shots : dict of str to float
        Accuracy over all query images of classes with that many support images.
    queries_by_shots : dict of str to int
        Number of these query images.
    support_least, support_most : int
        Smallest and largest number of support images of a class that was drawn.
    support_mean : float
        Mean number of support images of a class.
    query_least, query_most : int
        Smallest and largest number of query images of a class that was drawn.
    failed : int
        Tasks with predictions that are not finite. Such predictions count as wrong in the
        accuracy and as uniform probabilities in NLL and ECE.
    tasks_per_second : float
        Speed of the test.
    extra, extra_intervals : dict of str to float
        Additional metrics by name: mean over tasks and interval.
    bins : tuple of (float, float, float)
        For each confidence bin: query images, correct query images, sum of confidences.
    runs : int
        Number of runs that were pooled.
    run_deviation : float
        Standard deviation of the accuracies of the pooled runs, ddof = 1.
    scores : tuple of TaskScore
        Scores of the tasks, run after run.

    Examples
    --------
    >>> import anyshot
    >>> metrics = anyshot.Metrics()
    >>> metrics.update(anyshot.TaskResult(0, [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1], shots=[1, 5]))
    >>> metrics.update(anyshot.TaskResult(1, [[0.4, 0.6], [0.1, 0.9]], labels=[0, 1], shots=[9, 5]))
    >>> summary = metrics.compute()
    >>> summary.accuracy, summary.worst_class
    (0.75, 0.5)
    >>> summary.by_shots["2-5"], summary.queries_by_shots["2-5"]
    (1.0, 2)
    >>> summary.accuracies
    array([[1. , 0.5]])
    """

    tasks: int
    queries: int
    accuracy: float
    interval: float | None
    nll: float
    nll_interval: float | None
    ece: float
    worst_class: float
    by_shots: dict[str, float | None]
    queries_by_shots: dict[str, int]
    support_least: int
    support_mean: float
    support_most: int
    query_least: int
    query_most: int
    failed: int
    tasks_per_second: float | None
    extra: dict[str, float]
    extra_intervals: dict[str, float | None]
    bins: tuple[tuple[float, float, float], ...] = dataclasses.field(default=(), repr=False)
    runs: int = 1
    run_deviation: float | None = None
    scores: tuple[TaskScore, ...] = dataclasses.field(default=(), repr=False)

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Accuracy of each task, shape (runs, tasks)."""
        return self._by_run([score.accuracy for score in self.scores])

    @property
    def nlls(self) -> NDArray[np.float64]:
        """Mean −log p(true class) of each task, shape (runs, tasks)."""
        return self._by_run([score.nll for score in self.scores])

    def extra_values(self, name: str) -> NDArray[np.float64]:
        """Value of an additional metric for each task, shape (runs, tasks)."""
        return self._by_run([score.extra[name] for score in self.scores])

    def _by_run(self, values: Sequence[float]) -> NDArray[np.float64]:
        return np.array(values).reshape(self.runs, -1)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON, without the tasks and the bins."""
        values = dataclasses.asdict(dataclasses.replace(self, scores=(), bins=()))
        del values["scores"], values["bins"]
        return {_KEYS.get(name, name): value for name, value in values.items()}

    def to_frame(self) -> pd.DataFrame:
        """The tasks as a pandas DataFrame: one row for each task of each run.

        The columns are ``run`` (0 to runs − 1), ``task``, ``way``, ``support``, ``queries``,
        ``accuracy``, ``nll``, ``worst_class``, additional metrics, ``failed``, and tuples over the
        classes: ``shots``, ``correct``, ``queries_by_class`` and ``classes``.

        Raises
        ------
        SettingsError
            If pandas is not installed.

        Examples
        --------
        >>> import anyshot
        >>> metrics = anyshot.Metrics()
        >>> metrics.update(anyshot.TaskResult(0, [[0.9, 0.1]], labels=[0], shots=[1, 5]))
        >>> metrics.update(anyshot.TaskResult(1, [[0.4, 0.6]], labels=[0], shots=[9, 5]))
        >>> frame = metrics.compute().to_frame()
        >>> frame[["task", "support", "accuracy"]].values.tolist()
        [[0.0, 6.0, 1.0], [1.0, 14.0, 0.0]]
        """
        lines = []
        for position, score in enumerate(self.scores):
            of_classes = {name: getattr(score, name) for name in ("shots", "correct", "classes")}
            of_classes["queries_by_class"] = score.queries
            lines.append({"run": position // self.tasks, **score.as_dict(), **of_classes})
        return import_pandas().DataFrame(lines)


def import_pandas() -> Any:
    """The pandas module; an error that says how to install it if it is missing."""
    try:
        import pandas
    except ImportError as error:
        raise SettingsError(
            "pandas is not installed, and data frames need it; run: pip install 'anyshot[pandas]'"
        ) from error
    return pandas


class Metrics:
    """Collects the results of tasks.

    Neither the order of the tasks nor their distribution over workers changes a bit of the summary.

    Parameters
    ----------
    extra : mapping of str to callable, optional
        Additional metrics by name: functions of probabilities (M, C), labels (M,) and shots (C,)
        that return a number.

    Examples
    --------
    >>> import anyshot
    >>> def certain(p, labels, shots):
    ...     return (p.max(axis=1) > 0.8).mean()
    >>> metrics = anyshot.Metrics({"certain": certain})
    >>> metrics.update(anyshot.TaskResult(0, [[0.9, 0.1], [0.3, 0.7]], labels=[0, 1], shots=[1, 5]))
    >>> len(metrics), metrics.compute().extra
    (1, {'certain': 0.5})
    """

    def __init__(self, extra: Mapping[str, Metric] | None = None) -> None:
        self._extra = extra or {}
        for name, metric in self._extra.items():
            check_call(f"The metric {name!r}", metric, "probabilities, labels, shots")
        self._rows: dict[int, tuple[TaskScore, NDArray[np.float64]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getstate__(self) -> dict[str, Any]:
        # Another process merges the scores; it does not need the functions, which may not pickle.
        return {"_rows": self._rows, "_extra": {}}

    def update(self, result: TaskResult) -> None:
        """Add the result of one task."""
        self._add(result.index, *score_task(result, self._extra))

    def merge(self, other: Metrics) -> None:
        """Add all tasks of another worker."""
        for index, row in other._rows.items():
            self._add(index, *row)

    def compute(self, seconds: float | None = None) -> Summary:
        """The summary of all tasks so far; ``seconds`` is the time that they took.

        Raises
        ------
        DataError
            If there is no task.
        """
        if not self._rows:
            raise DataError("There are 0 tasks to summarise; test at least one task.")
        scores = [self._rows[index][0] for index in sorted(self._rows)]
        cells = zip(*(self._rows[score.index][1].ravel().tolist() for score in scores), strict=True)
        bins = np.array([math.fsum(cell) for cell in cells]).reshape(BINS, 3)
        return summarise(scores, bins.tolist(), seconds, tuple(self._extra))

    def _add(self, index: int, score: TaskScore, bins: NDArray[np.float64]) -> None:
        if index in self._rows:
            raise DataError(f"Task {index} was added twice; every task needs its own index.")
        self._rows[index] = score, bins


def summarise(
    scores: Sequence[TaskScore],
    bins: Sequence[Sequence[float]],
    seconds: float | None = None,
    extra: Sequence[str] = (),
) -> Summary:
    """The summary of at least one score, in the order of ``scores``.

    ``bins`` [BINS, 3] are summed over the tasks, ``extra`` names the additional metrics.
    """
    shots = np.concatenate([score.shots for score in scores])
    queries = np.concatenate([score.queries for score in scores])
    correct = np.concatenate([score.correct for score in scores])
    ranges = np.searchsorted(_LAST_OF_RANGE, shots)
    queries_in_range = np.bincount(ranges, queries, len(SHOTS)).astype(int).tolist()
    correct_in_range = np.bincount(ranges, correct, len(SHOTS)).astype(int).tolist()
    counts = zip(SHOTS, correct_in_range, queries_in_range, strict=True)
    return Summary(
        tasks=len(scores),
        queries=sum(queries_in_range),
        accuracy=exact_mean(s.accuracy for s in scores),
        interval=confidence_half_width([s.accuracy for s in scores]),
        nll=exact_mean(s.nll for s in scores),
        nll_interval=confidence_half_width([s.nll for s in scores]),
        ece=expected_calibration_error(bins),
        worst_class=exact_mean(s.worst_class for s in scores),
        by_shots={name: right / n if n else None for name, right, n in counts},
        queries_by_shots=dict(zip(SHOTS, queries_in_range, strict=True)),
        support_least=int(shots.min()),
        support_mean=float(shots.mean()),
        support_most=int(shots.max()),
        query_least=int(queries.min()),
        query_most=int(queries.max()),
        failed=sum(s.failed for s in scores),
        tasks_per_second=len(scores) / seconds if seconds else None,
        extra={name: exact_mean(s.extra[name] for s in scores) for name in extra},
        extra_intervals={
            name: confidence_half_width([s.extra[name] for s in scores]) for name in extra
        },
        bins=tuple((images, right, confidence) for images, right, confidence in bins),
        scores=tuple(scores),
    )


def exact_mean(values: Iterable[float]) -> float:
    """The mean, rounded once (``math.fsum``), so that the order of the values does not matter."""
    values = list(values)
    return math.fsum(values) / len(values)


def confidence_half_width(*samples: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of a sum of independent sample means.

    The half-width is q · √Σ std² / n with ddof = 1. For one sample (of tasks), q = 1.96 as papers
    report it. Samples of a few runs are too small for that: with several samples q is the quantile
    of Student's t with the degrees of freedom of Welch and Satterthwaite,
    (Σ std²/n)² / Σ (std²/n)² / (n − 1). ``None`` if a sample has only one value.
    """
    if min(map(len, samples)) < 2:
        return None
    variances = [statistics.variance(sample) / len(sample) for sample in samples]
    total = math.fsum(variances)
    q = 1.96
    if len(samples) > 1 and total:
        from scipy.special import stdtrit  # slow to import

        terms = [v**2 / (len(sample) - 1) for v, sample in zip(variances, samples, strict=True)]
        q = float(stdtrit(total**2 / math.fsum(terms), 0.975))
    return q * math.sqrt(total)


def expected_calibration_error(bins: Sequence[Sequence[float]]) -> float:
    """The expected calibration error (ECE), Σ_b |correct_b − confidence_b| / images.

    ``bins`` [BINS, 3] hold images, correct predictions and the sum of confidences.
    """
    images, correct, confidence = np.array(bins).T
    return math.fsum(np.abs(correct - confidence)) / math.fsum(images)
