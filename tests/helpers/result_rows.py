"""Rows of results with numbers that are easy to compute by hand."""

from __future__ import annotations

from anyshot.core.settings import MethodSettings, Settings, TrainSettings
from anyshot.evaluation.compare_runs import ResultRow
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult


def summary(shots=(1, 20), seconds=2.0, right=(0, 1, 1, 1), query=1) -> Summary:
    """Tasks of two classes with ``query`` images each; ``right``: whether class 2 is recognised."""
    metrics = Metrics()
    for index, hit in enumerate(right):
        p = [0.4, 0.6] if hit else [0.9, 0.1]
        labels = [0] * query + [1] * query
        metrics.update(TaskResult(index, [[0.9, 0.1]] * query + [p] * query, labels, shots))
    return metrics.compute(seconds)


def row(found: Summary, images="digits", run="taml", method="taml", seed=0) -> ResultRow:
    settings = Settings(method=MethodSettings(name=method), train=TrainSettings(seed=seed))
    return ResultRow(run, images, (settings,), found)
