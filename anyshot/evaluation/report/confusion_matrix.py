"""The confusion matrix as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from anyshot.evaluation.report.style import escape_math

NUMBERS_UP_TO = 30  # classes: with more, the counts do not fit into their cells


def confusion_figure(names: Sequence[str], counts: NDArray[np.int64], path: Path) -> None:
    """Draw ``counts`` [true class, predicted class] and save the figure to ``path``.

    The shade of a cell is its share of the row, the number is its count.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_confusion(names, counts).savefig(path, dpi=150, bbox_inches="tight")


def draw_confusion(names: Sequence[str], counts: NDArray[np.int64]) -> Figure:
    """The figure of :func:`confusion_figure`."""
    labels = [escape_math(name) for name in names]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 1.8 + 0.55 * len(labels)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right"} if len(labels) > 3 else {}
    axes.set_xticks(range(len(labels)), labels, **slanted)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if len(labels) <= NUMBERS_UP_TO:
        for row, column in np.ndindex(*counts.shape):
            colour = "white" if shares[row, column] > 0.5 else "black"
            text = str(counts[row, column])
            axes.text(column, row, text, ha="center", va="center", color=colour)
    figure.colorbar(image, label="share of the true class")
    return figure
