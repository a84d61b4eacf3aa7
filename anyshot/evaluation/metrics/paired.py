"""Several summaries: pool the seeds of a method, average image sets, compare two methods."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anyshot.core.errors import DataError
from anyshot.evaluation.metrics.summary import SHOTS, Summary, confidence_half_width, exact_mean
from anyshot.evaluation.metrics.task_score import TaskScore


@dataclass(frozen=True)
class PairedDifference:
    """The second summary minus the first, over the same tasks.

    Attributes
    ----------
    tasks : int
        Number of tasks.
    accuracy, accuracy_interval : float
        Mean difference of the accuracies, and the half-width of its 95 % interval.
    nll, nll_interval : float
        The same for the negative log-likelihood.

    Examples
    --------
    >>> import anyshot
    >>> anyshot.PairedDifference(100, 0.02, 0.01, -0.05, 0.03).accuracy
    0.02
    """

    tasks: int
    accuracy: float
    accuracy_interval: float | None
    nll: float
    nll_interval: float | None


def paired_difference(first: Summary, second: Summary) -> PairedDifference:
    """Compare two summaries task by task.

    The difficulty of the tasks cancels in the differences, so small effects become visible.

    Parameters
    ----------
    first, second : Summary
        Summaries over the same tasks.

    Returns
    -------
    PairedDifference
        The mean of ``second`` − ``first`` over tasks. The interval is 1.96 · √(std² / tasks) of
        these differences. If runs were pooled, it is q · √(std² / tasks + std² / runs), with the
        means of the pooled runs of either side, and covers new seeds, too. q is a quantile of
        Student's t (:func:`anyshot.evaluation.metrics.summary.confidence_half_width`).

    Raises
    ------
    DataError
        If the summaries are not over the same tasks.

    Examples
    --------
    >>> import anyshot
    >>> one, two = anyshot.Metrics(), anyshot.Metrics()
    >>> for task in range(4):
    ...     one.update(anyshot.TaskResult(task, [[0.6, 0.4]] * 2, labels=[0, 1], shots=[1, 1]))
    ...     two.update(anyshot.TaskResult(task, [[0.8, 0.2], [0.4, 0.6]], [0, 1], shots=[1, 1]))
    >>> anyshot.paired_difference(one.compute(), two.compute()).accuracy
    0.5
    """
    _check_same_tasks([first, second])
    numbers: list[float | None] = []
    for one, two in ((first.accuracies, second.accuracies), (first.nlls, second.nlls)):
        differences = (two.mean(axis=0) - one.mean(axis=0)).tolist()
        run_means = [values.mean(axis=1).tolist() for values in (one, two) if len(values) > 1]
        numbers.append(exact_mean(differences))
        numbers.append(confidence_half_width(differences, *run_means))
    return PairedDifference(first.tasks, *numbers)  # type: ignore[arg-type]


def pool_seeds(summaries: Sequence[Summary]) -> Summary:
    """Combine several runs on the same tasks (the seeds of one method) into one summary.

    Parameters
    ----------
    summaries : sequence of Summary
        One summary for each run, over the same tasks.

    Returns
    -------
    Summary
        Means over the runs. The interval is q · √(std² / tasks + std² / runs), of the tasks' means
        over runs and of the runs' means over tasks, and covers new tasks and new seeds. q is a
        quantile of Student's t, since a few seeds give only a rough estimate
        (:func:`anyshot.evaluation.metrics.summary.confidence_half_width`).

    Raises
    ------
    DataError
        If the summaries are not over the same tasks.

    Examples
    --------
    >>> import anyshot
    >>> runs = [anyshot.Metrics(), anyshot.Metrics()]
    >>> for seed, metrics in enumerate(runs):
    ...     for task in range(4):
    ...         p = [[0.8, 0.2], [0.7, 0.3] if task < seed else [0.4, 0.6]]
    ...         metrics.update(anyshot.TaskResult(task, p, labels=[0, 1], shots=[1, 1]))
    >>> pooled = anyshot.pool_seeds([metrics.compute() for metrics in runs])
    >>> pooled.runs, pooled.tasks, pooled.accuracy
    (2, 4, 0.9375)
    """
    _check_same_tasks(summaries)
    runs = len(summaries)
    if runs == 1:
        return summaries[0]
    scores = tuple(score for s in summaries for score in s.scores)
    pooled = replace(_means(summaries), runs=runs, scores=scores)
    return replace(
        pooled,
        interval=confidence_half_width(
            pooled.accuracies.mean(axis=0).tolist(), [s.accuracy for s in summaries]
        ),
        nll_interval=confidence_half_width(
            pooled.nlls.mean(axis=0).tolist(), [s.nll for s in summaries]
        ),
        extra_intervals={
            name: confidence_half_width(
                pooled.extra_values(name).mean(axis=0).tolist(), [s.extra[name] for s in summaries]
            )
            for name in pooled.extra
        },
        run_deviation=statistics.stdev(s.accuracy for s in summaries),
    )


def average_sets(summaries: Sequence[Summary]) -> Summary:
    """The mean over several image sets with equal weights, and the interval of that mean.

    Numbers of tasks and images are summed. The scores of the tasks are left out.
    """
    counts = [s.queries_by_shots for s in summaries]
    return replace(
        _means(summaries),
        tasks=sum(s.tasks for s in summaries),
        queries=sum(s.queries for s in summaries),
        queries_by_shots={name: sum(count[name] for count in counts) for name in SHOTS},
        support_least=min(s.support_least for s in summaries),
        support_most=max(s.support_most for s in summaries),
        query_least=min(s.query_least for s in summaries),
        query_most=max(s.query_most for s in summaries),
        interval=_half_width_of_mean([s.interval for s in summaries]),
        nll_interval=_half_width_of_mean([s.nll_interval for s in summaries]),
        extra_intervals={
            name: _half_width_of_mean([s.extra_intervals[name] for s in summaries])
            for name in summaries[0].extra
        },
        run_deviation=None,
        scores=(),
    )


def _means(summaries: Sequence[Summary]) -> Summary:
    """The first summary with the means over all summaries instead of its own measurements."""

    def mean_of_known(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return exact_mean(known) if known else None

    bins = np.zeros((0, 3))
    if all(s.bins for s in summaries):
        bins = np.sum([s.bins for s in summaries], axis=0)
    return replace(
        summaries[0],
        bins=tuple((images, correct, sure) for images, correct, sure in bins.tolist()),
        accuracy=exact_mean(s.accuracy for s in summaries),
        nll=exact_mean(s.nll for s in summaries),
        ece=exact_mean(s.ece for s in summaries),
        worst_class=exact_mean(s.worst_class for s in summaries),
        by_shots={name: mean_of_known(s.by_shots[name] for s in summaries) for name in SHOTS},
        extra={n: exact_mean(s.extra[n] for s in summaries) for n in summaries[0].extra},
        support_mean=exact_mean(s.support_mean for s in summaries),
        failed=sum(s.failed for s in summaries),
        tasks_per_second=mean_of_known(s.tasks_per_second for s in summaries),
    )


def _half_width_of_mean(half_widths: Sequence[float | None]) -> float | None:
    """The half-width of the mean of independent numbers; None if one of them has no interval."""
    known = [half_width for half_width in half_widths if half_width is not None]
    return math.hypot(*known) / len(half_widths) if len(known) == len(half_widths) else None


def same_tasks(summaries: Sequence[Summary]) -> bool:
    """Whether all summaries are over the same tasks, so that they can be compared task by task."""
    first, *others = (s.scores[: s.tasks] for s in summaries)
    return bool(first) and all(
        len(first) == len(other) and all(map(TaskScore.same_task, first, other)) for other in others
    )


def _check_same_tasks(summaries: Sequence[Summary]) -> None:
    if not same_tasks(summaries):
        counts = ", ".join(str(s.tasks) for s in summaries)
        raise DataError(
            f"These summaries ({counts} tasks) are not over the same tasks; test all with the same "
            "images, split, seed, way, shots and query."
        )
