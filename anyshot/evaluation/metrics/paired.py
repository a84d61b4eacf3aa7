"""Several summaries: the mean over image sets, the seeds of one method as one, and two methods task by task.

>>> from anyshot.evaluation.metrics import Metrics, TaskResult
>>> one, two = Metrics(), Metrics()
>>> for task in range(4):
...     one.update(TaskResult(task, [[0.6, 0.4], [0.6, 0.4]], labels=[0, 1], shots=[1, 1]))
...     two.update(TaskResult(task, [[0.8, 0.2], [0.4, 0.6]], labels=[0, 1], shots=[1, 1]))
>>> paired(one.compute(), two.compute()).accuracy
0.5
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anyshot.core.errors import AnyshotError
from anyshot.evaluation.metrics.summary import SHOTS, Summary, confidence_half_width, mean
from anyshot.evaluation.metrics.task_score import TaskScore


@dataclass(frozen=True)
class PairedDifference:
    """The second summary minus the first, over the same tasks, with the half-widths of the 95 % intervals."""

    tasks: int
    accuracy: float
    accuracy_interval: float | None
    nll: float
    nll_interval: float | None


def paired_difference(first: Summary, second: Summary) -> PairedDifference:
    """Task by task, `second` − `first`: what both find hard cancels, so small differences show.

    The interval is 1.96 · √(std² / tasks) of the tasks' differences, each the mean over the pooled runs. Where runs
    were pooled, it is q · √(… + std² / runs) with either side's run means, and speaks of new seeds too; q is Student's
    (:func:`anyshot.evaluation.metrics.summary.half_width`).
    """
    _check_same_tasks([first, second])
    numbers: list[float | None] = []
    for one, two in ((first.accuracies, second.accuracies), (first.nlls, second.nlls)):
        difference = (two.mean(axis=0) - one.mean(axis=0)).tolist()
        runs = [values.mean(axis=1).tolist() for values in (one, two) if len(values) > 1]
        numbers += [mean(difference), confidence_half_width(difference, *runs)]
    return PairedDifference(first.tasks, *numbers)  # type: ignore[arg-type]


def pool_seeds(summaries: Sequence[Summary]) -> Summary:
    """Several runs on the same tasks (one method's seeds) as one summary: means over runs.

    The interval is q · √(std² / tasks + std² / runs), of the tasks' means over runs and of the runs' means over tasks:
    what new tasks and new seeds would change. q is Student's (:func:`anyshot.evaluation.metrics.summary.half_width`), since three
    seeds give but a rough idea of the latter.
    """
    _check_same_tasks(summaries)
    first, runs = summaries[0], len(summaries)
    if runs == 1:
        return first
    together = replace(
        _means(summaries), runs=runs, scores=tuple(score for s in summaries for score in s.scores)
    )
    return replace(
        together,
        interval=confidence_half_width(
            together.accuracies.mean(axis=0).tolist(), [s.accuracy for s in summaries]
        ),
        nll_interval=confidence_half_width(
            together.nlls.mean(axis=0).tolist(), [s.nll for s in summaries]
        ),
        more_intervals={
            name: confidence_half_width(
                together.others(name).mean(axis=0).tolist(), [s.more[name] for s in summaries]
            )
            for name in together.more
        },
        run_deviation=statistics.stdev(s.accuracy for s in summaries),
    )


def average(summaries: Sequence[Summary]) -> Summary:
    """The mean over several image sets, each counting the same, with the interval of that mean; tasks are added up."""
    together = _means(summaries)
    return replace(
        together,
        tasks=sum(s.tasks for s in summaries),
        queries=sum(s.queries for s in summaries),
        queries_by_shots={name: sum(s.queries_by_shots[name] for s in summaries) for name in SHOTS},
        support_least=min(s.support_least for s in summaries),
        support_most=max(s.support_most for s in summaries),
        query_least=min(s.query_least for s in summaries),
        query_most=max(s.query_most for s in summaries),
        interval=_of_mean([s.interval for s in summaries]),
        nll_interval=_of_mean([s.nll_interval for s in summaries]),
        more_intervals={
            n: _of_mean([s.more_intervals[n] for s in summaries]) for n in summaries[0].more
        },
        run_deviation=None,
        scores=(),
    )


def _means(summaries: Sequence[Summary]) -> Summary:
    """The first summary with the means of all in place of its measured numbers."""

    def known(values: Iterable[float | None]) -> float | None:
        some = [value for value in values if value is not None]
        return mean(some) if some else None

    bins = (
        np.sum([s.bins for s in summaries], axis=0)
        if all(s.bins for s in summaries)
        else np.zeros((0, 3))
    )
    return replace(
        summaries[0],
        bins=tuple(map(tuple, bins.tolist())),
        accuracy=mean(s.accuracy for s in summaries),
        nll=mean(s.nll for s in summaries),
        ece=mean(s.ece for s in summaries),
        worst_class=mean(s.worst_class for s in summaries),
        by_shots={name: known(s.by_shots[name] for s in summaries) for name in SHOTS},
        more={name: mean(s.more[name] for s in summaries) for name in summaries[0].more},
        support_mean=mean(s.support_mean for s in summaries),
        failed=sum(s.failed for s in summaries),
        tasks_per_second=known(s.tasks_per_second for s in summaries),
    )


def _of_mean(intervals: Sequence[float | None]) -> float | None:
    """The half-width of a mean of independent numbers."""
    known = [interval for interval in intervals if interval is not None]
    return math.hypot(*known) / len(intervals) if len(known) == len(intervals) else None


def same_tasks(summaries: Sequence[Summary]) -> bool:
    """Whether these are tests on the same tasks, and can be compared task by task."""
    first, *others = (s.scores[: s.tasks] for s in summaries)
    return bool(first) and all(
        len(first) == len(other) and all(map(TaskScore.same_task, first, other)) for other in others
    )


def _check_same_tasks(summaries: Sequence[Summary]) -> None:
    if not same_tasks(summaries):
        raise AnyshotError(
            "These tests are not of the same tasks; give all the same images, split, seed, way, shots and query."
        )
