"""Figures of the balancing variables ω, γ and z, with the paper's symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyshot.evaluation.report.binning import ratio_bins
from anyshot.evaluation.report.style import (
    add_legend_above,
    add_note,
    nth_style,
    save_figure,
    set_ratio_axis,
    set_size_axis,
    shorten,
    use_style,
)
from anyshot.evaluation.report.training_curves import load_logs, training_figure

if TYPE_CHECKING:
    from anyshot.evaluation.inspection import BalanceRecord
    from anyshot.runs.run import Run

_BARS = "Thin bars: one posterior standard deviation either way."
_LINES = "Lines: means over {} of similar size."


def save_inspection_figures(
    runs: Sequence[Run], records: Sequence[BalanceRecord], folder: Path
) -> list[Path]:
    """Save the figures of the balancing variables and of the training; return the paths.

    The training figure is left out if no run has a training log.
    """
    figures = balance_figures(records)
    if logs := load_logs(runs):
        figures["training"] = training_figure(logs)
    return [path for name, figure in figures.items() for path in save_figure(figure, folder / name)]


def balance_figures(records: Sequence[BalanceRecord]) -> dict[str, Figure]:
    """The figures "omega", "gamma" and "z" of the variables that are switched on."""
    figures = {}
    if any(r.omega_mean is not None for r in records):
        figures["omega"] = omega_figure(records)
    if any(r.gamma_mean is not None for r in records):
        figures["gamma"] = gamma_figure(records)
    if any(r.z_norm is not None for r in records):
        figures["z"] = z_figure(records)
    return figures


@use_style
def omega_figure(records: Sequence[BalanceRecord]) -> Figure:
    """Draw ω of every class against its size, as C·ω_c, which is 1 for equal weights.

    The line follows the classes of uneven tasks. In a task with classes of equal size (hollow
    dots), the size cannot explain a difference.
    """
    figure = Figure(figsize=(6.8, 4.6))
    axes = figure.add_subplot()
    with_omega = [r for r in records if r.omega_mean is not None]
    for index, (name, group, colour, marker) in enumerate(_by_imageset(with_omega)):
        offset = 1.02**index  # separates the image sets where only few sizes occur
        even = [r for r in group if len(set(r.shots)) == 1]
        size, mean, _ = _class_weights(even)
        axes.plot(
            size * offset, mean, marker, color=colour, markersize=3, mfc="none", mew=0.6, alpha=0.4
        )
        size, mean, deviation = _class_weights([r for r in group if len(set(r.shots)) > 1])
        _plot_dots(axes, size * offset, mean, deviation, colour, marker, name)
    axes.axhline(1, color="#555555", linewidth=1, linestyle="--", zorder=1, label="equal weights")
    set_size_axis(axes)
    axes.set(
        xlabel="images in the class, $N_c$", ylabel=r"class weight, $C\,\omega_c$", ylim=(0, None)
    )
    axes.set_title("Weight of each class in the inner loss")
    add_legend_above(figure, axes, 4)
    has_even = any(len(set(r.shots)) == 1 for r in records)
    hollow = " Hollow dots: tasks with classes of equal size." if has_even else ""
    add_note(figure, f"Dots: posterior means. {_BARS} {_LINES.format('classes')}{hollow}")
    return figure


def _class_weights(records: Sequence[BalanceRecord]) -> tuple[Any, Any, Any]:
    """Sizes, C·E[ω_c] and C·std[ω_c] of all classes of the tasks, arrays [classes]."""
    size = [r.shots for r in records]
    mean = [len(r.shots) * np.asarray(r.omega_mean) for r in records]
    deviation = [len(r.shots) * np.asarray(r.omega_std) for r in records]
    empty = np.empty(0)
    return (
        np.concatenate([empty, *size]),
        np.concatenate([empty, *mean]),
        np.concatenate([empty, *deviation]),
    )


@use_style
def gamma_figure(records: Sequence[BalanceRecord]) -> Figure:
    """Draw γ of each layer against the size of the task, one panel per layer, on one ratio axis."""
    with_gamma = [r for r in records if r.gamma_mean is not None]
    layers = with_gamma[0].layers
    figure = Figure(figsize=(2.3 * len(layers) + 0.6, 3.5))
    panels = figure.subplots(1, len(layers), squeeze=False, sharex=True, sharey=True)[0]
    for index, (axes, layer) in enumerate(zip(panels, layers, strict=True)):
        for name, group, colour, marker in _by_imageset(with_gamma):
            size = np.array([sum(r.shots) for r in group])
            mean = np.array([r.gamma_mean[index] for r in group if r.gamma_mean is not None])
            deviation = np.array([r.gamma_std[index] for r in group if r.gamma_std is not None])
            _plot_dots(axes, size, mean, deviation, colour, marker, name)
        axes.axhline(1, color="#555555", linewidth=1, linestyle="--", zorder=1, label="no change")
        set_size_axis(axes)
        axes.set_title(layer)
    set_ratio_axis(panels[0], [value for r in with_gamma for value in r.gamma_mean or ()])
    panels[0].set_ylabel(r"step-size multiplier, $\gamma_l$")
    panels[len(layers) // 2].set_xlabel("images in the task, $N$")
    add_legend_above(figure, panels[0], 7)
    add_note(figure, f"Dots: posterior means of tasks. {_BARS} {_LINES.format('tasks')}")
    return figure


@use_style
def z_figure(records: Sequence[BalanceRecord]) -> Figure:
    """Draw ‖z‖ of every task by image set: the size of the shift of the initialisation."""
    groups = list(_by_imageset(r for r in records if r.z_norm is not None))
    figure = Figure(figsize=(max(4.4, 1.5 + 1.1 * len(groups)), 4.0))
    axes = figure.add_subplot()
    for x, (_, group, colour, marker) in enumerate(groups):
        norms = np.array([r.z_norm for r in group], float)
        # the golden ratio spreads the dots evenly, and in the same way every time
        spread = x + 0.28 * (2 * np.mod(np.arange(len(norms)) * 0.6180339887, 1) - 1)
        axes.plot(spread, norms, marker, color=colour, markersize=4, alpha=0.45, markeredgewidth=0)
        low, median, high = np.percentile(norms, [25, 50, 75])
        axes.plot([x, x], [low, high], color="black", linewidth=4, solid_capstyle="butt")
        axes.plot([x - 0.33, x + 0.33], [median, median], color="black", linewidth=2)
    labels = [shorten(name) for name, *_ in groups]
    axes.set_xticks(range(len(groups)), labels, rotation=20 if len(groups) > 4 else 0)
    axes.set(
        ylabel=r"shift of the initialisation, $\Vert z \Vert$",
        xlim=(-0.6, len(groups) - 0.4),
        ylim=(0, None),
    )
    axes.grid(False, axis="x")
    axes.set_title("Shift of the initialisation by image set")
    add_note(figure, "Dots: tasks. Thick bar: quartiles. Line: median.")
    return figure


def _by_imageset(
    records: Iterable[BalanceRecord],
) -> Iterator[tuple[str, list[BalanceRecord], str, str]]:
    """Name, records, colour and marker of each image set."""
    groups: dict[str, list[BalanceRecord]] = {}
    for record in records:
        groups.setdefault(record.imageset, []).append(record)
    for index, (name, group) in enumerate(groups.items()):
        yield name, group, *nth_style(index)


def _plot_dots(
    axes: Axes, x: Any, y: Any, deviation: Any, colour: str, marker: str, name: str
) -> None:
    """Plot dots with thin bars, and a line through the means of the dots of similar size."""
    alpha = float(np.clip(7 / np.sqrt(len(x) + 1), 0.25, 0.9))
    bars = np.stack([np.minimum(deviation, y), deviation])  # ω and γ are positive
    axes.errorbar(
        x, y, bars, fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.5 * alpha, zorder=2
    )
    axes.plot(x, y, marker, color=colour, markersize=3.5, alpha=alpha, markeredgewidth=0, zorder=3)
    line = trend(x, y)
    axes.plot(*line, color="white", linewidth=4, zorder=4)
    style: dict[str, Any] = {"marker": marker, "markersize": 4, "linewidth": 2}
    axes.plot(*line, color=colour, zorder=5, label=shorten(name), **style)


def trend(x: Any, y: Any) -> tuple[list[float], list[float]]:
    """Mean of y [n] against the geometric mean of x [n] in bins of equal ratio.

    Bins of a single dot are left out: they would draw noise.
    """
    bins = int(np.clip(len(x) // 8, 2, 8))
    masks = [mask for mask in ratio_bins(x, bins) if mask.sum() > 1]
    return [np.exp(np.log(x[mask]).mean()) for mask in masks], [y[mask].mean() for mask in masks]
