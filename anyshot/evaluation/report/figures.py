"""Figures with the paper's symbols, drawn without a screen and saved as PNG and SVG."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from anyshot.core.files import PathLike, write_bytes

if TYPE_CHECKING:
    from anyshot.evaluation.inspection import BalanceRecord

# Okabe and Ito's colours, told apart by colour-blind readers too; the markers tell them apart in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "<", ">")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "anyshot",  # the same figure, the same bytes
}


def save_figure(figure: Figure, stem: PathLike) -> list[Path]:
    """Write `stem`.png and `stem`.svg and say where they are."""
    paths = [Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    for path, data in zip(paths, (png(figure), _saved(figure, "svg", Date=None)), strict=True):
        write_bytes(path, data)
    return paths


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file."""
    return _saved(figure, "png", Software=None)


def _saved(figure: Figure, kind: str, **metadata: None) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def balance_figures(records: Sequence[BalanceRecord]) -> dict[str, Figure]:
    """The figures "omega", "gamma" and "z", as far as these variables are on."""
    on = {
        "omega": (omega_figure, any(r.omega_mean is not None for r in records)),
        "gamma": (gamma_figure, any(r.gamma_mean is not None for r in records)),
        "z": (z_figure, any(r.z_norm is not None for r in records)),
    }
    return {name: draw(records) for name, (draw, wanted) in on.items() if wanted}


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw in anyshot's style."""

    @wraps(draw)
    def drawn(*arguments: Any, **options: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return drawn


@styled
def omega_figure(records: Sequence[BalanceRecord]) -> Figure:
    """ω of every class against its size, drawn as C·ω_c, so that tasks of any way share the even share 1.

    The line follows the classes of uneven tasks; in a task with classes of one size, size cannot tell classes apart.
    """
    figure = Figure(figsize=(6.8, 4.6))
    axes = figure.add_subplot()
    for place, (name, group, colour, marker) in enumerate(
        _by_imageset(r for r in records if r.omega_mean is not None)
    ):
        shift = 1.02**place  # sets side by side where sizes are few
        for uneven in (False, True):
            some = [r for r in group if (len(set(r.shots)) > 1) == uneven]
            size, mean, deviation = (
                np.concatenate([np.empty(0), *parts])
                for parts in (
                    [r.shots for r in some],
                    [len(r.shots) * np.asarray(r.omega_mean) for r in some],
                    [len(r.shots) * np.asarray(r.omega_std) for r in some],
                )
            )
            if uneven:
                _dots(axes, size * shift, mean, deviation, colour, marker, name)
            else:
                axes.plot(
                    size * shift,
                    mean,
                    marker,
                    color=colour,
                    markersize=3,
                    mfc="none",
                    mew=0.6,
                    alpha=0.4,
                )
    axes.axhline(1, color="#555555", linewidth=1, linestyle="--", zorder=1, label="even share")
    log_sizes(axes)
    axes.set(
        xlabel="images in the class, $N_c$", ylabel=r"class balance, $C\,\omega_c$", ylim=(0, None)
    )
    axes.set_title("Which classes the inner loss listens to")
    legend_above(figure, axes, 4)
    hollow = (
        " Hollow dots: tasks with classes of one size."
        if any(len(set(r.shots)) == 1 for r in records)
        else ""
    )
    explain(figure, f"Dots: posterior means. {_BARS} {_LINES.format('classes')}{hollow}")
    return figure


@styled
def gamma_figure(records: Sequence[BalanceRecord]) -> Figure:
    """γ of each layer against the size of the task, one panel a layer; all share one scale, of ratios, that reaches
    from ½ to 2 at least, so that what hardly differs from 1 does not look as if it did."""
    on = [r for r in records if r.gamma_mean is not None]
    layers = len(on[0].gamma_mean or ())
    figure = Figure(figsize=(2.3 * layers + 0.6, 3.5))
    panels = figure.subplots(1, layers, squeeze=False, sharex=True, sharey=True)[0]
    for layer, axes in enumerate(panels):
        for name, group, colour, marker in _by_imageset(on):
            size = np.array([sum(r.shots) for r in group])
            mean = np.array([r.gamma_mean[layer] for r in group if r.gamma_mean is not None])
            deviation = np.array([r.gamma_std[layer] for r in group if r.gamma_std is not None])
            _dots(axes, size, mean, deviation, colour, marker, name)
        axes.axhline(
            1, color="#555555", linewidth=1, linestyle="--", zorder=1, label="step as learned"
        )
        log_sizes(axes)
        axes.set_title(on[0].layers[layer])
    ratios(panels[0], [value for r in on for value in r.gamma_mean or ()])
    panels[0].set_ylabel(r"step size multiplier, $\gamma_l$")
    panels[layers // 2].set_xlabel("images in the task, $N$")
    legend_above(figure, panels[0], 7)
    explain(figure, f"Dots: posterior means of tasks. {_BARS} {_LINES.format('tasks')}")
    return figure


@styled
def z_figure(records: Sequence[BalanceRecord]) -> Figure:
    """‖z‖ of every task, by image set: how far the start moves."""
    groups = list(_by_imageset([r for r in records if r.z_norm is not None]))
    figure = Figure(figsize=(max(4.4, 1.5 + 1.1 * len(groups)), 4.0))
    axes = figure.add_subplot()
    for place, (_, group, colour, marker) in enumerate(groups):
        norms = np.array([r.z_norm for r in group], float)
        # spread by the golden ratio: even, and the same every time
        spread = place + 0.28 * (2 * np.mod(np.arange(len(norms)) * 0.6180339887, 1) - 1)
        axes.plot(spread, norms, marker, color=colour, markersize=4, alpha=0.45, markeredgewidth=0)
        low, middle, high = np.percentile(norms, [25, 50, 75])
        axes.plot([place, place], [low, high], color="black", linewidth=4, solid_capstyle="butt")
        axes.plot([place - 0.33, place + 0.33], [middle, middle], color="black", linewidth=2)
    axes.set_xticks(
        range(len(groups)),
        [_short(name) for name, *_ in groups],
        rotation=20 if len(groups) > 4 else 0,
    )
    axes.set(
        ylabel=r"shift of the start, $\Vert z \Vert$",
        xlim=(-0.6, len(groups) - 0.4),
        ylim=(0, None),
    )
    axes.grid(False, axis="x")
    axes.set_title("How far each image set moves the start")
    explain(figure, "Dots: tasks. Thick bar: middle half. Line: median.")
    return figure


@styled
def training_figure(logs: Mapping[str, Iterable[Mapping[str, Any]]]) -> Figure:
    """Curves of one or several runs: `logs` maps a run's name to its records (`Run.records()`).

    Losses start at 0 and accuracies reach from 0 to 100 %. Validation: one line for each image set.
    """
    curves = {name: _curves(list(log)) for name, log in logs.items()}
    kinds = [kind for kind in _CURVES if any(kind in found for found in curves.values())]
    last = max(
        (
            x
            for found in curves.values()
            for kind in found.values()
            for line in kind.values()
            for x, _ in line
        ),
        default=1,
    )
    figure = Figure(figsize=(3.9 * max(len(kinds), 1) + 0.3, 3.6))
    for axes, kind in zip(
        figure.subplots(1, max(len(kinds), 1), squeeze=False)[0], kinds, strict=False
    ):
        for place, found in enumerate(curves.values()):
            for line, points in enumerate(found.get(kind, {}).values()):
                _curve(
                    axes,
                    points,
                    COLOURS[place % len(COLOURS)],
                    line,
                    validation=kind == "validation",
                )
        axes.set(xlabel="iteration", title=_CURVES[kind], xlim=(0, 1.03 * last))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_ylim(bottom=0)
        if kind in {"accuracy", "validation"}:
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    colours = [
        Line2D([], [], color=COLOURS[place % len(COLOURS)], linewidth=2, label=literal(name))
        for place, name in enumerate(logs)
    ]
    sets = list(
        dict.fromkeys(images for found in curves.values() for images in found.get("validation", {}))
    )
    styles = [
        Line2D([], [], color="black", **_line_style(line), label=_short(name))
        for line, name in enumerate(sets)
    ]
    handles = [*(colours if len(logs) > 1 else []), *(styles if len(sets) > 1 else [])]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 7))
    if any(
        _window(len(points)) > 1
        for found in curves.values()
        for points in found.get("loss", {}).values()
    ):
        explain(
            figure, "Faint: every iteration. Strong: the running mean over a thirtieth of them."
        )
    return figure


_CURVES = {
    "loss": "query loss",
    "penalty": r"KL$\,/\,(N+M)$",
    "accuracy": "training accuracy",
    "validation": "validation accuracy",
}
Points = list[tuple[int, float]]


def _curves(log: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Points]]:
    """{panel: {line: points}} of one run's records, without nulls and without a penalty that is always 0."""
    found: dict[str, dict[str, Points]] = {}
    for record in log:
        if record.get("kind") == "iteration":
            values = {(kind, ""): record.get(kind) for kind in ("loss", "penalty", "accuracy")}
        elif record.get("kind") == "validation":
            apart = {"kind", "iteration", "selection"}
            values = {
                ("validation", name): value for name, value in record.items() if name not in apart
            }
        else:
            continue
        for (kind, name), value in values.items():
            if value is not None:
                found.setdefault(kind, {}).setdefault(name, []).append((record["iteration"], value))
    if not any(value for _, value in found.get("penalty", {}).get("", [])):
        found.pop("penalty", None)
    return found


def _window(points: int) -> int:
    """How many points of a curve its running mean is taken over."""
    return max(1, points // 30)


def _line_style(line: int) -> dict[str, Any]:
    return {
        "linestyle": ("-", "--", ":", "-.")[line % 4],
        "marker": MARKERS[line % len(MARKERS)],
        "markersize": 4,
    }


def _curve(axes: Axes, points: Points, colour: str, line: int, *, validation: bool) -> None:
    at, values = np.array(points, float).T
    width = 1 if validation else _window(len(values))
    if width > 1:
        axes.plot(at, values, color=colour, alpha=0.25, linewidth=0.8)
        total = np.cumsum(np.concatenate([[0.0], values]))
        end = np.arange(1, len(values) + 1)
        start = np.maximum(end - width, 0)  # the first points average what there is
        values = (total[end] - total[start]) / (end - start)
    axes.plot(at, values, color=colour, linewidth=1.8, **(_line_style(line) if validation else {}))


def _by_imageset(
    records: Iterable[BalanceRecord],
) -> Iterator[tuple[str, list[BalanceRecord], str, str]]:
    groups: dict[str, list[BalanceRecord]] = {}
    for record in records:
        groups.setdefault(record.imageset, []).append(record)
    for place, (name, group) in enumerate(groups.items()):
        yield name, group, COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]


def _dots(axes: Axes, x: Any, y: Any, deviation: Any, colour: str, marker: str, name: str) -> None:
    """Dots with thin bars, and a line through the means of the dots of similar size."""
    alpha = float(np.clip(7 / np.sqrt(len(x) + 1), 0.25, 0.9))
    bars = np.stack([np.minimum(deviation, y), deviation])  # ω and γ are positive
    axes.errorbar(
        x, y, bars, fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.5 * alpha, zorder=2
    )
    axes.plot(x, y, marker, color=colour, markersize=3.5, alpha=alpha, markeredgewidth=0, zorder=3)
    line = _trend(x, y)
    axes.plot(*line, color="white", linewidth=4, zorder=4)
    axes.plot(
        *line, color=colour, marker=marker, markersize=4, linewidth=2, zorder=5, label=_short(name)
    )


def _trend(x: Any, y: Any) -> tuple[Any, Any]:
    """Mean of y against geometric mean of x in bins of equal ratio; a bin of one dot says too little to draw."""
    if not len(x):
        return [], []
    bins = int(np.clip(len(x) // 8, 2, 8))
    edges = np.geomspace(x.min(), x.max() * (1 + 1e-9), bins + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    filled = [place == b for b in range(bins) if (place == b).sum() > 1]
    return [np.exp(np.log(x[b]).mean()) for b in filled], [y[b].mean() for b in filled]


def log_sizes(axes: Axes) -> None:
    """An x-axis of sizes, on a scale of ratios, with the numbers written out."""
    low, high = axes.dataLim.intervalx
    if high < 1.001 * low:  # a single size
        axes.set_xlim(low / 2, high * 2)
    axes.set_xscale("log")
    near = low < high < 2 * low  # ratios would find no round number between them
    axes.xaxis.set_major_locator(MaxNLocator(3) if near else LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def ratios(axes: Axes, values: Sequence[float]) -> None:
    """A scale on which half and double are as far from 1; bars may leave it, dots do not."""
    axes.set_yscale("log", base=2)
    axes.set_ylim(min(0.5, 0.9 * min(values)), max(2, 1.1 * max(values)))
    axes.yaxis.set_major_locator(LogLocator(base=2, subs=(1, 1.5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


_BARS = "Thin bars: one posterior deviation either way."
_LINES = "Lines: means over {} of similar size."


def explain(figure: Figure, text: str) -> None:
    """What dots, bars and lines are, below the panels."""
    width = int(14 * figure.get_figwidth())  # letters that fit
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=8.5, color="#555555")


def legend_above(figure: Figure, axes: Axes, columns: int) -> None:
    """A legend above the panels, where no dot can be; none for a single entry."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(handles), columns))


def _short(name: str, most: int = 18) -> str:
    """An image set's name, or the end of a long path."""
    name = Path(name).name or name
    return literal(name if len(name) <= most else "…" + name[1 - most :])


def literal(name: str) -> str:
    """A name in which matplotlib looks for no formula."""
    return name.replace("$", r"\$")
