"""Many tasks in numbers, gathered task by task, on any number of workers."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError
from anyshot.evaluation.metrics.extra import Metric
from anyshot.evaluation.metrics.task_score import BINS, TaskResult, TaskScore, score_task

SHOTS = ("1", "2-5", "6-15", "16-50", ">50")  # ranges of support images a class
_SHOT_ENDS = np.array([1, 5, 15, 50])


@dataclass(frozen=True)
class Summary:
    """A test in numbers; fractions, not per cent. None where there was nothing to measure."""

    tasks: int
    queries: int  # query images
    accuracy: float  # mean over tasks
    interval: (
        float | None
    )  # half-width of the 95 % interval: 1.96 · std / √tasks, std with ddof = 1
    nll: float  # mean over tasks of the mean −log p(true class)
    nll_interval: float | None
    ece: float  # expected calibration error, 15 bins of the largest probability, over all query images
    worst_class: float  # mean over tasks of the lowest recall of a class
    by_shots: dict[
        str, float | None
    ]  # accuracy over all query images whose class has so many support images
    queries_by_shots: dict[str, int]  # how many these are
    support_least: int  # support images of a class, as they were drawn
    support_mean: float
    support_most: int
    query_least: int  # query images of a class, as they were drawn
    query_most: int
    failed: int  # tasks with predictions that are not finite: counted as wrong, and as even odds in nll and ece
    tasks_per_second: float | None
    more: dict[str, float]  # other metrics by name: mean over tasks
    more_intervals: dict[str, float | None]
    bins: tuple[tuple[float, float, float], ...] = dataclasses.field(default=(), repr=False)
    # of the calibration error: query images, hits and summed confidence in each bin of confidence
    runs: int = 1  # how many runs were pooled
    run_deviation: float | None = (
        None  # standard deviation of the pooled runs' accuracies, ddof = 1
    )
    scores: tuple[TaskScore, ...] = dataclasses.field(
        default=(), repr=False
    )  # task by task, run after run

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Each task's accuracy, [runs, tasks]."""
        return np.array([score.accuracy for score in self.scores]).reshape(self.runs, -1)

    @property
    def nlls(self) -> NDArray[np.float64]:
        """Each task's mean −log p(true class), [runs, tasks]."""
        return np.array([score.nll for score in self.scores]).reshape(self.runs, -1)

    def others(self, name: str) -> NDArray[np.float64]:
        """Each task's value of another metric, [runs, tasks]."""
        return np.array([score.more[name] for score in self.scores]).reshape(self.runs, -1)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the tasks and the bins."""
        values = dataclasses.asdict(dataclasses.replace(self, scores=(), bins=()))
        del values["scores"], values["bins"]
        return values


class Metrics:
    """Accumulates task results, and ``more`` metrics of them by name. The order of tasks, and how they were spread over
    workers, changes no bit."""

    def __init__(self, more: Mapping[str, Metric] | None = None) -> None:
        self._more = more or {}
        self._rows: dict[int, tuple[TaskScore, NDArray[np.float64]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_rows": self._rows,
            "_more": {},
        }  # for another process to merge; functions stay where they are

    def reset(self) -> None:
        """Forget every task."""
        self._rows.clear()

    def update(self, result: TaskResult) -> None:
        """Take in one task."""
        self._add(result.index, *score_task(result, self._more))

    def merge(self, other: Metrics) -> None:
        """Take in all tasks of another worker."""
        for index, row in other._rows.items():
            self._add(index, *row)

    def compute(self, seconds: float | None = None) -> Summary:
        """The summary of all tasks so far; `seconds` is how long they took."""
        if not self._rows:
            raise AnyshotError(
                "No task has been measured, so there is nothing to summarise. Test at least one task."
            )
        scores = [self._rows[index][0] for index in sorted(self._rows)]
        cells = zip(*(self._rows[score.index][1].ravel().tolist() for score in scores), strict=True)
        bins = np.array([math.fsum(cell) for cell in cells]).reshape(BINS, 3)
        return summarise(scores, bins.tolist(), seconds, tuple(self._more))

    def _add(self, index: int, score: TaskScore, bins: NDArray[np.float64]) -> None:
        if index in self._rows:
            raise AnyshotError(f"Task {index} was measured twice; every task needs its own index.")
        self._rows[index] = score, bins


def summarise(
    scores: Sequence[TaskScore],
    bins: Sequence[Sequence[float]],
    seconds: float | None = None,
    more: Sequence[str] = (),
) -> Summary:
    """The summary of the scores of one or more tasks, in their order, and of their summed bins [BINS, 3]; `more` names
    other metrics that the scores hold."""
    shots, asked, hits = (
        np.concatenate([getattr(s, name) for s in scores]) for name in ("shots", "asked", "hits")
    )
    ranges = np.searchsorted(_SHOT_ENDS, shots)
    images, right = (np.bincount(ranges, w, len(SHOTS)).astype(int).tolist() for w in (asked, hits))
    return Summary(
        tasks=len(scores),
        queries=sum(images),
        accuracy=mean(s.accuracy for s in scores),
        interval=confidence_half_width([s.accuracy for s in scores]),
        nll=mean(s.nll for s in scores),
        nll_interval=confidence_half_width([s.nll for s in scores]),
        ece=calibration_error(bins),
        worst_class=mean(s.worst_class for s in scores),
        by_shots={
            name: r / n if n else None for name, r, n in zip(SHOTS, right, images, strict=True)
        },
        queries_by_shots=dict(zip(SHOTS, images, strict=True)),
        support_least=int(shots.min()),
        support_mean=float(shots.mean()),
        support_most=int(shots.max()),
        query_least=int(asked.min()),
        query_most=int(asked.max()),
        failed=sum(s.failed for s in scores),
        tasks_per_second=len(scores) / seconds if seconds else None,
        more={name: mean(s.more[name] for s in scores) for name in more},
        more_intervals={
            name: confidence_half_width([s.more[name] for s in scores]) for name in more
        },
        bins=tuple((images, hits, confidence) for images, hits, confidence in bins),
        scores=tuple(scores),
    )


def mean(values: Iterable[float]) -> float:
    """Rounded once (fsum), whatever the order."""
    values = list(values)
    return math.fsum(values) / len(values)


def confidence_half_width(*samples: Sequence[float]) -> float | None:
    """Half the 95 % interval of a sum of independent means: q · √Σ std² / n, std with ddof = 1; None where a sample has
    but one value.

    q is 1.96 for one sample, of tasks, as papers report it. Samples of a few runs beside it are too small for that: q
    is then Student's, with Welch's and Satterthwaite's degrees of freedom, (Σ std²/n)² / Σ (std²/n)² / (n − 1).
    """
    if min(map(len, samples)) < 2:
        return None
    squares = [statistics.variance(sample) / len(sample) for sample in samples]
    total, q = math.fsum(squares), 1.96
    if len(samples) > 1 and total:
        from scipy.special import stdtrit  # takes a while to load

        parts = [
            square**2 / (len(sample) - 1) for square, sample in zip(squares, samples, strict=True)
        ]
        q = float(stdtrit(total**2 / math.fsum(parts), 0.975))
    return q * math.sqrt(total)


def calibration_error(bins: Sequence[Sequence[float]]) -> float:
    """Σ_b |hits_b − confidence_b| / images."""
    images, hits, confidence = np.array(bins).T
    return math.fsum(np.abs(hits - confidence)) / math.fsum(images)
