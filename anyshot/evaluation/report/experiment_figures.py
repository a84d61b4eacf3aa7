"""Figures of experiments: lines with intervals, accuracies beside the paper's, a map of points, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from anyshot.evaluation.metrics import SHOTS
from anyshot.evaluation.report.paper_table import PaperComparison, TableCell
from anyshot.evaluation.report.paper_table import TableRows as Texts
from anyshot.evaluation.report.style import (
    COLOURS,
    MARKERS,
    add_legend_above,
    add_note,
    escape_math,
    set_ratio_axis,
    set_size_axis,
    use_style,
)
from anyshot.evaluation.report.tables import dashed

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow


class Point(NamedTuple):
    """A point of a line, with the half-width of its interval."""

    x: float
    y: float
    interval: float | None = None


Lines = Mapping[str, Sequence[Point]]  #: by what to call each


@use_style
def lines_figure(
    panels: Mapping[str, Lines],
    xlabel: str,
    ylabel: str,
    level: float | None = None,
    as_ratios: bool = False,
) -> Figure:
    """Panels side by side with one y-axis; x is a size, on a scale of ratios. ``level`` is a dashed line."""
    figure = Figure(figsize=(max(5.2, 2.4 * len(panels) + 0.8), 3.9))
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for one, (title, lines) in zip(axes, panels.items(), strict=True):
        for place, (name, points) in enumerate(lines.items()):
            _line(one, points, place, name)
        if level is not None:
            one.axhline(level, color="#555555", linewidth=1, linestyle="--", zorder=1)
        set_size_axis(one)
        one.set_title(title)
    if as_ratios:
        set_ratio_axis(
            axes[0],
            [point.y for lines in panels.values() for points in lines.values() for point in points],
        )
    axes[0].set_ylabel(ylabel)
    axes[len(panels) // 2].set_xlabel(xlabel)
    add_legend_above(figure, axes[0], 4 if len(panels) > 2 else 2)
    if any(
        point.interval for lines in panels.values() for points in lines.values() for point in points
    ):
        add_note(figure, "Bars: 95 % intervals.")
    return figure


def _line(axes: Axes, points: Sequence[Point], place: int, name: str) -> None:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    x, y = [point.x for point in points], [point.y for point in points]
    bars = [point.interval or 0.0 for point in points]
    style: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "markersize": 5,
        "linewidth": 1.8,
        "capsize": 2,
    }
    axes.errorbar(x, y, bars, elinewidth=1, label=escape_math(name), **style)


@use_style
def comparison_figure(beside: PaperComparison) -> Figure:
    """A panel a column: each model's accuracy with its interval, and the paper's."""
    models = [*reversed(beside.models)]  # the first on top
    figure = Figure(figsize=(2.0 + 2.3 * len(beside.columns), 1.3 + 0.36 * len(models)))
    panels = figure.subplots(1, len(beside.columns), squeeze=False, sharey=True)[0]
    for place, (axes, column) in enumerate(zip(panels, beside.columns, strict=True)):
        for row, model in enumerate(models):
            cell = beside.cells[model, place]
            if cell.summary:
                x, bar = 100 * cell.summary.accuracy, 100 * (cell.summary.interval or 0.0)
                axes.errorbar(
                    [x], [row], xerr=[bar], fmt="o", color=COLOURS[0], capsize=2, label="ours"
                )
            if cell.paper:
                x, bar = cell.paper
                style = {"fmt": "D", "color": COLOURS[1], "mfc": "white", "markersize": 5}
                axes.errorbar([x], [row - 0.22], xerr=[bar], label="paper", **style)
        axes.set_title(escape_math(column))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[0].set_yticks(range(len(models)), [escape_math(model) for model in models])
    panels[0].set_ylim(-0.6, len(models) - 0.4)
    panels[len(panels) // 2].set_xlabel("accuracy, %")
    drawn, labels = panels[0].get_legend_handles_labels()
    handles = dict(zip(labels, drawn, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=2)
    return figure


@use_style
def map_figure(
    points: Mapping[str, NDArray[np.float64]], origin: NDArray[np.float64], origin_name: str
) -> Figure:
    """Points in the plane by group, and one that stands apart."""
    figure = Figure(figsize=(5.4, 4.6))
    axes = figure.add_subplot()
    for place, (name, group) in enumerate(points.items()):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        axes.plot(
            *group.T,
            marker,
            color=colour,
            markersize=4.5,
            alpha=0.7,
            markeredgewidth=0,
            label=escape_math(name),
        )
    axes.plot(*origin, "*", color="black", markersize=15, label=origin_name)
    axes.set_xticks([])
    axes.set_yticks([])
    add_legend_above(figure, axes, 4)
    add_note(figure, "Dots: tasks.")
    return figure


@use_style
def bars_figure(groups: Mapping[str, Lines], ylabel: str) -> Figure:
    """Bars side by side within each group; of a line's points the first alone."""
    names = list(next(iter(groups.values())))
    figure = Figure(figsize=(max(4.6, 1.4 + 1.3 * len(groups)), 3.9))
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        found = [group[name][0] for group in groups.values()]
        x = np.arange(len(groups)) + (place - (len(names) - 1) / 2) * width
        bars = axes.bar(
            x, [p.y for p in found], 0.92 * width, yerr=[p.interval or 0.0 for p in found], capsize=3, label=name,
            color=COLOURS[place % len(COLOURS)], hatch=("", "///", "...")[place % 3], edgecolor="white",
        )  # fmt: skip
        axes.bar_label(bars, fmt="%.2f", fontsize=9, padding=2)
    axes.set_xticks(range(len(groups)), [escape_math(name) for name in groups])
    axes.set_ylabel(ylabel)
    axes.grid(False, axis="x")
    axes.margins(y=0.15)
    add_legend_above(figure, axes, 2)
    return figure


@use_style
def shots_figure(rows: Sequence[ResultRow]) -> Figure:
    """A panel an image set: accuracy by the number of images that a class is learned from, a line a run."""
    sets = list(dict.fromkeys(row.images for row in rows))
    ranges = [name for name in SHOTS if any(row.summary.by_shots[name] is not None for row in rows)]
    figure = Figure(figsize=(1.2 + 3.3 * len(sets), 3.8))
    panels = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for axes, images in zip(panels, sets, strict=True):
        for place, row in enumerate(row for row in rows if row.images == images):
            known = [
                (i, 100 * a)
                for i, name in enumerate(ranges)
                if (a := row.summary.by_shots[name]) is not None
            ]
            style = {
                "color": COLOURS[place % len(COLOURS)],
                "marker": MARKERS[place % len(MARKERS)],
            }
            axes.plot(*zip(*known, strict=True), linewidth=1.8, label=escape_math(row.run), **style)
        axes.set_xticks(range(len(ranges)), [dashed(name) for name in ranges])
        axes.set_title(escape_math(images))
        axes.set_ylim(0, 100)
    panels[0].set_ylabel("accuracy, %")
    panels[len(panels) // 2].set_xlabel("images in the class")
    add_legend_above(figure, panels[0], 4)
    return figure


@use_style
def calibration_figure(rows: Sequence[ResultRow]) -> Figure:
    """A panel an image set: how often answers are right against how sure they are, a line a run; dots as large as their
    share of the answers."""
    sets = list(dict.fromkeys(row.images for row in rows))
    figure = Figure(figsize=(1.0 + 3.4 * len(sets), 4.0))
    panels = figure.subplots(1, len(sets), squeeze=False, sharey=True)[0]
    for axes, images in zip(panels, sets, strict=True):
        axes.plot(
            [0, 1], [0, 1], color="#555555", linewidth=1, linestyle="--", label="as sure as right"
        )
        for place, row in enumerate(row for row in rows if row.images == images):
            n, hits, confidence = np.array([one for one in row.summary.bins if one[0]]).T
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            axes.plot(
                confidence / n,
                hits / n,
                color=colour,
                linewidth=1.5,
                marker=marker,
                markersize=3,
                label=escape_math(row.run),
            )
            axes.scatter(
                confidence / n, hits / n, 250 * n / n.sum(), color=colour, alpha=0.35, linewidths=0
            )
        axes.set_title(escape_math(images))
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="largest probability")
    panels[0].set_ylabel("share of right answers")
    add_legend_above(figure, panels[0], 4)
    add_note(figure, "Bins of a fifteenth. Discs: the larger, the more answers.")
    return figure


def number_lines(panels: Mapping[str, Lines]) -> Texts:
    """The numbers of a figure, a line each."""
    points = [
        (panel, name, p)
        for panel, lines in panels.items()
        for name, own in lines.items()
        for p in own
    ]
    lines = [[TableCell(word) for word in ("", "at", "value", "± 95 %")]]
    for panel, name, p in points:
        interval = "–" if p.interval is None else f"{p.interval:.3g}"
        what = ", ".join(word for word in (panel, name) if word).replace("$", "").replace("\\", "")
        lines.append(
            [
                TableCell(what),
                TableCell(f"{p.x:.4g}" if p.x else "–"),
                TableCell(f"{p.y:.4g}"),
                TableCell(interval),
            ]
        )
    return lines
