"""Figures of experiments: lines with intervals, accuracies next to the paper's, maps, bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from anyshot.evaluation.metrics import SHOTS
from anyshot.evaluation.report.paper_table import PaperComparison, TableCell, TableRows
from anyshot.evaluation.report.style import (
    COLOURS,
    add_legend_above,
    add_note,
    escape_math,
    nth_style,
    set_ratio_axis,
    set_size_axis,
    use_style,
)
from anyshot.evaluation.report.tables import format_range

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow


class Point(NamedTuple):
    """A point of a line, with the half-width of its interval."""

    x: float
    y: float
    interval: float | None = None


Lines = Mapping[str, Sequence[Point]]  #: the lines of a panel by their names


@use_style
def lines_figure(
    panels: Mapping[str, Lines],
    xlabel: str,
    ylabel: str,
    level: float | None = None,
    as_ratios: bool = False,
) -> Figure:
    """Draw panels side by side that share a y-axis; x is a size on a logarithmic axis.

    ``level`` is the height of a dashed line. With ``as_ratios``, y is a logarithmic axis, too.
    """
    columns = 4 if len(panels) > 2 else 2
    rows = math.ceil(max(len(lines) for lines in panels.values()) / columns)  # of the legend
    width = max(6.4 if rows > 2 else 5.2, 2.4 * len(panels) + 0.8)
    figure = Figure(figsize=(width, 3.5 + 0.2 * max(rows, 2)))
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        for index, (name, line) in enumerate(lines.items()):
            _plot_line(panel, line, index, name)
        if level is not None:
            panel.axhline(level, color="#555555", linewidth=1, linestyle="--", zorder=1)
        set_size_axis(panel)
        panel.set_title(title)
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    if as_ratios:
        set_ratio_axis(axes[0], [point.y for point in points])
    axes[0].set_ylabel(ylabel)
    axes[len(panels) // 2].set_xlabel(xlabel)
    add_legend_above(figure, axes[0], columns)
    if any(point.interval for point in points):
        add_note(figure, "Bars: 95 % intervals.")
    return figure


def _plot_line(axes: Axes, points: Sequence[Point], index: int, name: str) -> None:
    """Plot the ``index``-th line of a panel with its intervals."""
    colour, marker = nth_style(index)
    style: dict[str, Any] = {"markersize": 5, "linewidth": 1.8, "capsize": 2, "elinewidth": 1}
    axes.errorbar(
        [point.x for point in points],
        [point.y for point in points],
        [point.interval or 0.0 for point in points],
        color=colour,
        marker=marker,
        label=escape_math(name),
        **style,
    )


@use_style
def comparison_figure(comparison: PaperComparison) -> Figure:
    """Draw one panel per column: the accuracy of each model with its interval, and the paper's."""
    models = [*reversed(comparison.models)]  # the first one at the top
    figure = Figure(figsize=(2.0 + 2.3 * len(comparison.columns), 1.3 + 0.36 * len(models)))
    panels = figure.subplots(1, len(comparison.columns), squeeze=False, sharey=True)[0]
    paper_style: dict[str, Any] = {"fmt": "D", "color": COLOURS[1], "mfc": "white", "markersize": 5}
    for column, (axes, name) in enumerate(zip(panels, comparison.columns, strict=True)):
        for y, model in enumerate(models):
            cell = comparison.cells[model, column]
            if cell.summary:
                x, bar = 100 * cell.summary.accuracy, 100 * (cell.summary.interval or 0.0)
                axes.errorbar(
                    [x], [y], xerr=[bar], fmt="o", color=COLOURS[0], capsize=2, label="ours"
                )
            if cell.paper:
                published, half_width = cell.paper
                axes.errorbar(
                    [published], [y - 0.22], xerr=[half_width or 0], label="paper", **paper_style
                )
        axes.set_title(escape_math(name))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[0].set_yticks(range(len(models)), [escape_math(model) for model in models])
    panels[0].set_ylim(-0.6, len(models) - 0.4)
    panels[len(panels) // 2].set_xlabel("accuracy, %")
    legends = [axes.get_legend_handles_labels() for axes in panels]
    by_label = {label: handle for legend in legends for handle, label in zip(*legend, strict=True)}
    figure.legend(by_label.values(), by_label.keys(), loc="outside upper right", ncols=2)
    return figure


@use_style
def map_figure(
    points: Mapping[str, NDArray[np.float64]],
    origin: NDArray[np.float64],
    origin_name: str,
    title: str,
) -> Figure:
    """Draw groups of points [n, 2] in the plane and one point ``origin`` [2] as a star.

    ``title`` names the model that the points belong to.
    """
    figure = Figure(figsize=(5.4, 4.6))
    axes = figure.add_subplot()
    style: dict[str, Any] = {"markersize": 4.5, "alpha": 0.7, "markeredgewidth": 0}
    for index, (name, group) in enumerate(points.items()):
        colour, marker = nth_style(index)
        axes.plot(*group.T, marker, color=colour, label=escape_math(name), **style)
    axes.plot(*origin, "*", color="black", markersize=15, label=origin_name)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(escape_math(title))
    add_legend_above(figure, axes, 4)
    add_note(figure, "Dots: tasks.")
    return figure


@use_style
def bars_figure(groups: Mapping[str, Lines], ylabel: str) -> Figure:
    """Draw bars side by side within each group; only the first point of a line is used."""
    names = list(next(iter(groups.values())))
    figure = Figure(figsize=(max(4.6, 1.4 + 1.3 * len(groups)), 3.9))
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        points = [group[name][0] for group in groups.values()]
        bars = axes.bar(
            np.arange(len(groups)) + (index - (len(names) - 1) / 2) * width,
            [point.y for point in points],
            0.92 * width,
            yerr=[point.interval or 0.0 for point in points],
            capsize=3,
            label=name,
            color=nth_style(index)[0],
            hatch=("", "///", "...")[index % 3],
            edgecolor="white",
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=9, padding=2)
    axes.set_xticks(range(len(groups)), [escape_math(name) for name in groups])
    axes.set_ylabel(ylabel)
    axes.grid(False, axis="x")
    axes.margins(y=0.15)
    add_legend_above(figure, axes, 2)
    return figure


@use_style
def shots_figure(rows: Sequence[ResultRow]) -> Figure:
    """Draw accuracy against support images of a class: a panel per image set, a line per run."""
    sets = list(dict.fromkeys(row.images for row in rows))
    ranges = [name for name in SHOTS if any(row.summary.by_shots[name] is not None for row in rows)]
    figure = Figure(figsize=(1.2 + 3.3 * len(sets), 3.8))
    panels = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for axes, images in zip(panels, sets, strict=True):
        for index, row in enumerate(row for row in rows if row.images == images):
            accuracies = [row.summary.by_shots[name] for name in ranges]
            known = [(x, 100 * a) for x, a in enumerate(accuracies) if a is not None]
            colour, marker = nth_style(index)
            x, y = zip(*known, strict=True)
            axes.plot(x, y, color=colour, marker=marker, linewidth=1.8, label=escape_math(row.run))
        axes.set_xticks(range(len(ranges)), [format_range(name) for name in ranges])
        axes.set_title(escape_math(images))
        axes.set_ylim(0, 100)
    panels[0].set_ylabel("accuracy, %")
    panels[len(panels) // 2].set_xlabel("support images of the class")
    add_legend_above(figure, panels[0], 4)
    return figure


@use_style
def calibration_figure(rows: Sequence[ResultRow]) -> Figure:
    """Draw accuracy against confidence: a panel per image set, a line per run.

    The area of a disc is proportional to the number of predictions in its bin.
    """
    sets = list(dict.fromkeys(row.images for row in rows))
    figure = Figure(figsize=(1.0 + 3.4 * len(sets), 4.0))
    panels = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for axes, images in zip(panels, sets, strict=True):
        diagonal: dict[str, Any] = {"color": "#555555", "linewidth": 1, "linestyle": "--"}
        axes.plot([0, 1], [0, 1], label="perfect calibration", **diagonal)
        for index, row in enumerate(row for row in rows if row.images == images):
            n, correct, confidence = np.array([one for one in row.summary.bins if one[0]]).T
            x, y = confidence / n, correct / n
            colour, marker = nth_style(index)
            style: dict[str, Any] = {"marker": marker, "markersize": 3, "linewidth": 1.5}
            axes.plot(x, y, color=colour, label=escape_math(row.run), **style)
            axes.scatter(x, y, 250 * n / n.sum(), color=colour, alpha=0.35, linewidths=0)
        axes.set_title(escape_math(images))
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence (largest probability)")
    panels[0].set_ylabel("accuracy")
    add_legend_above(figure, panels[0], 4)
    add_note(figure, "15 bins of equal width. Area of a disc: number of predictions.")
    return figure


def number_lines(panels: Mapping[str, Lines]) -> TableRows:
    """The numbers of a figure as a table with one line per point."""
    rows = [[TableCell(heading) for heading in ("", "at", "value", "± 95 %")]]
    for panel, lines in panels.items():
        for name, points in lines.items():
            label = ", ".join(text for text in (panel, name) if text)
            label = label.replace("$", "").replace("\\", "")
            for x, y, interval in points:
                texts = [
                    label,
                    f"{x:.4g}" if x else "–",
                    f"{y:.4g}",
                    "–" if interval is None else f"{interval:.3g}",
                ]
                rows.append([TableCell(text) for text in texts])
    return rows
