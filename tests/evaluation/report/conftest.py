from __future__ import annotations

import pytest

from anyshot.evaluation.metrics import Metrics, PairedDifference, Summary, TaskResult
from anyshot.evaluation.report.paper_table import Cell, PaperComparison


def summary(right: int) -> Summary:
    metrics = Metrics()
    for index in range(4):
        hit = index < right
        metrics.update(TaskResult(index, [[0.8, 0.2] if hit else [0.2, 0.8]], [0], [1, 7]))
    return metrics.compute()


@pytest.fixture
def comparison() -> PaperComparison:
    """Two models in two columns; one run failed, and the paper has no second column."""
    return PaperComparison(
        ("MAML", "B. ω-TAML"),
        ("CIFAR-FS", "own"),
        {
            ("MAML", 0): Cell(summary(2), (71.55, 0.23), PairedDifference(4, 0.25, 0.2, -0.1, 0.3)),
            ("B. ω-TAML", 0): Cell(summary(3), (75.15, 0.2), best=True),
            ("MAML", 1): Cell(None),
            ("B. ω-TAML", 1): Cell(summary(4)),
        },
        "B. ω-TAML",
    )
