"""What a test says about a method: a few numbers, gathered task by task, on any number of workers.

>>> metrics = Metrics()
>>> metrics.update(TaskResult(0, [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1], shots=[1, 5]))
>>> metrics.update(TaskResult(1, [[0.4, 0.6], [0.1, 0.9]], labels=[0, 1], shots=[20, 5]))
>>> summary = metrics.compute()
>>> summary.accuracy, summary.worst_class, summary.by_shots["2-5"], summary.queries_by_shots["2-5"]
(0.75, 0.5, 1.0, 2)
>>> [score.accuracy for score in summary.scores]
[1.0, 0.5]
"""

from __future__ import annotations

from anyshot.evaluation.metrics.paired import (
    PairedDifference,
    average,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.evaluation.metrics.summary import SHOTS, Metrics, Summary, summarise
from anyshot.evaluation.metrics.task_score import TaskResult, TaskScore

__all__ = [
    "SHOTS", "Metrics", "PairedDifference", "Summary", "TaskResult", "TaskScore", "average", "paired_difference", "pool_seeds",
    "same_tasks", "summarise",
]  # fmt: skip
