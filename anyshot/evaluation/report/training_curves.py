"""Learning curves of one or several runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from anyshot.evaluation.report.style import (
    MARKERS,
    add_note,
    escape_math,
    nth_style,
    shorten,
    use_style,
)

if TYPE_CHECKING:
    from anyshot.runs.run import Run

_TITLES = {
    "loss": "query loss",
    "penalty": r"KL$\,/\,(N+M)$",
    "accuracy": "training accuracy",
    "validation": "validation accuracy",
}
Points = list[tuple[int, float]]  # (iteration, value)
Curves = dict[str, dict[str, Points]]  # of a run: {panel: {line: points}}


def load_logs(runs: Sequence[Run]) -> dict[str, list[dict[str, Any]]]:
    """The logs of the runs by name. A run without learning curves, as bundled ones, is left out."""
    logs = {run.folder.name: list(run.records()) for run in runs}
    return {name: log for name, log in logs.items() if _curves(log)}


@use_style
def training_figure(logs: Mapping[str, Iterable[Mapping[str, Any]]]) -> Figure:
    """Draw loss, KL, training and validation accuracy against iterations.

    ``logs`` maps the name of a run to its log records (``Run.records()``). Losses start at 0 and
    accuracies span 0 to 100 %. The validation panel has one line for each image set.
    """
    curves = {name: _curves(list(log)) for name, log in logs.items()}
    kinds = [kind for kind in _TITLES if any(kind in of_run for of_run in curves.values())]
    figure = Figure(figsize=(3.9 * max(len(kinds), 1) + 0.3, 3.6))
    panels = figure.subplots(1, max(len(kinds), 1), squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=False):
        for index, of_run in enumerate(curves.values()):
            colour, _ = nth_style(index)
            for line, points in enumerate(of_run.get(kind, {}).values()):
                _plot_curve(axes, points, colour, line, validation=kind == "validation")
        axes.set(xlabel="iteration", title=_TITLES[kind], xlim=(0, 1.03 * _last_iteration(curves)))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_ylim(bottom=0)
        if kind in {"accuracy", "validation"}:
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    _add_legend(figure, curves)
    losses = [points for of_run in curves.values() for points in of_run.get("loss", {}).values()]
    if any(_window(len(points)) > 1 for points in losses):
        add_note(figure, "Faint: every iteration. Strong: running mean over 1/30 of them.")
    return figure


def _curves(log: Sequence[Mapping[str, Any]]) -> Curves:
    """The curves of one run. Nulls and a penalty that is always 0 are left out."""
    curves: Curves = {}
    for record in log:
        if record.get("kind") == "iteration":
            values = {(kind, ""): record.get(kind) for kind in ("loss", "penalty", "accuracy")}
        elif record.get("kind") == "validation":
            not_sets = {"kind", "iteration", "selection"}
            values = {("validation", k): v for k, v in record.items() if k not in not_sets}
        else:
            continue
        for (kind, name), value in values.items():
            if value is not None:
                points = curves.setdefault(kind, {}).setdefault(name, [])
                points.append((record["iteration"], value))
    if not any(value for _, value in curves.get("penalty", {}).get("", [])):
        curves.pop("penalty", None)
    return curves


def _last_iteration(curves: Mapping[str, Curves]) -> int:
    lines = [
        line for of_run in curves.values() for kind in of_run.values() for line in kind.values()
    ]
    return max((iteration for line in lines for iteration, _ in line), default=1)


def _add_legend(figure: Figure, curves: Mapping[str, Curves]) -> None:
    """Add a legend of the runs (colours) and image sets (line styles) if there are several."""
    sets = list(
        dict.fromkeys(k for of_run in curves.values() for k in of_run.get("validation", {}))
    )
    handles = []
    if len(curves) > 1:
        handles += [
            Line2D([], [], color=nth_style(index)[0], linewidth=2, label=escape_math(name))
            for index, name in enumerate(curves)
        ]
    if len(sets) > 1:
        handles += [
            Line2D([], [], color="black", **_line_style(line), label=shorten(name))
            for line, name in enumerate(sets)
        ]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 7))


def _window(points: int) -> int:
    """Number of points in the running mean of a curve."""
    return max(1, points // 30)


def _line_style(line: int) -> dict[str, Any]:
    """Line style and marker of the ``line``-th image set."""
    return {
        "linestyle": ("-", "--", ":", "-.")[line % 4],
        "marker": MARKERS[line % len(MARKERS)],
        "markersize": 4,
    }


def _plot_curve(axes: Axes, points: Points, colour: str, line: int, *, validation: bool) -> None:
    """Plot a validation curve as it is, a training curve with its running mean."""
    at, values = np.array(points, float).T
    width = 1 if validation else _window(len(values))
    if width > 1:
        axes.plot(at, values, color=colour, alpha=0.25, linewidth=0.8)
        total = np.cumsum(np.concatenate([[0.0], values]))
        end = np.arange(1, len(values) + 1)
        start = np.maximum(end - width, 0)  # the first means have fewer points
        values = (total[end] - total[start]) / (end - start)
    axes.plot(at, values, color=colour, linewidth=1.8, **(_line_style(line) if validation else {}))
