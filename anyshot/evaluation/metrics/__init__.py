"""Numbers of a test: scores of tasks, summaries with intervals, paired differences.

Imports ``core`` only.
"""

from __future__ import annotations

from anyshot.evaluation.metrics.paired import (
    PairedDifference,
    average_sets,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.evaluation.metrics.summary import SHOTS, Metrics, Summary, summarise
from anyshot.evaluation.metrics.task_score import TaskResult, TaskScore

__all__ = [
    "SHOTS",
    "Metrics",
    "PairedDifference",
    "Summary",
    "TaskResult",
    "TaskScore",
    "average_sets",
    "paired_difference",
    "pool_seeds",
    "same_tasks",
    "summarise",
]
