"""The confusion matrix as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def confusion_figure(names: Sequence[str], counts: NDArray[np.int64], path: Path) -> None:
    """Rows the truth, columns what it was taken for; shades are shares of a row, numbers are pictures."""
    from matplotlib.figure import Figure

    from anyshot.evaluation.report.style import escape_math

    names = [escape_math(name) for name in names]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 1.8 + 0.55 * len(names)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    axes.set_xticks(
        range(len(names)),
        names,
        rotation=45 if len(names) > 3 else 0,
        ha="right" if len(names) > 3 else "center",
    )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("taken for")
    axes.set_ylabel("truth")
    if len(names) <= 30:  # beyond, numbers would not fit
        for i, j in np.ndindex(*counts.shape):
            colour = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", color=colour)
    figure.colorbar(shown, label="share of the class")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
