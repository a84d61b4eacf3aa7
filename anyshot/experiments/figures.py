"""The kinds of figures: which measurements each needs, and how it is drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import matplotlib.figure
import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError, SettingsError
from anyshot.core.options import suggestion
from anyshot.evaluation.metrics import TaskScore, pool_seeds
from anyshot.evaluation.metrics.summary import confidence_half_width
from anyshot.evaluation.report.binning import ratio_bins
from anyshot.evaluation.report.experiment_figures import (
    Lines,
    Point,
    bars_figure,
    lines_figure,
    map_figure,
)
from anyshot.experiments.experiment import FigureSpec
from anyshot.experiments.measurement import Values, summary_of

Panels = Mapping[str, Lines]  #: the numbers of a figure, by panel and line
Drawing = tuple[matplotlib.figure.Figure, Panels]


@dataclass(frozen=True)
class Figure:
    """A drawn figure with the numbers in it."""

    name: str  #: of its files, without the ending
    title: str
    image: matplotlib.figure.Figure
    numbers: Panels = field(default_factory=dict)


@dataclass(frozen=True)
class FigureInput:
    """The measurements of one model in one column, at one value of the figure."""

    model: str
    images: str
    way: int
    value: int
    measured: tuple[Values, ...]  #: one for each seed

    def concatenate(self, key: str) -> list[Any]:
        """The lists of all seeds under this key, as one list."""
        return [entry for values in self.measured for entry in values[key]]

    def scores(self) -> list[TaskScore]:
        """The scores of all tasks, seed after seed."""
        return [TaskScore.from_json(score) for score in self.concatenate("scores")]


# ---------- figures of accuracy
def draw_accuracy_by_size(inputs: Sequence[FigureInput]) -> Drawing:
    """Accuracy against the number of images in a task."""

    def task_size(one: FigureInput) -> float:
        return float(np.mean([sum(score.shots) for score in one.scores()]))

    return _accuracy_lines(inputs, task_size, "images in the task, $N$")


def draw_samples(inputs: Sequence[FigureInput]) -> Drawing:
    """Accuracy against the number of Monte Carlo samples."""
    return _accuracy_lines(inputs, lambda one: one.value, "MC samples, $S$")


def _accuracy_lines(
    inputs: Sequence[FigureInput], x: Callable[[FigureInput], float], xlabel: str
) -> Drawing:
    lines: dict[str, list[Point]] = {}
    for one in inputs:
        summary = pool_seeds([summary_of(values) for values in one.measured])
        interval = None if summary.interval is None else 100 * summary.interval
        point = Point(x(one), 100 * summary.accuracy, interval)
        lines.setdefault(one.model, []).append(point)
    return _lines({"": lines}, xlabel, "accuracy, %")


def draw_gain(inputs: Sequence[FigureInput]) -> Drawing:
    """The gain in accuracy of each model over the first, by the number of images in a class."""
    base, *others = inputs
    lines = {}
    for other in others:
        sizes = []
        gains = []
        for before, after in zip(base.scores(), other.scores(), strict=True):
            classes = zip(before.shots, before.queries, before.correct, after.correct, strict=True)
            for size, queries, correct_before, correct_after in classes:
                sizes.append(size)
                gains.append(100 * (correct_after - correct_before) / queries)
        lines[other.model] = mean_by_size(sizes, gains)
    ylabel = f"accuracy − that of {base.model}, % points"
    return _lines({"": lines}, "images in the class, $N_c$", ylabel, level=0)


# ---------- figures of ω, γ and z
def draw_omega(inputs: Sequence[FigureInput]) -> Drawing:
    """E[ω] against the number of images in a class."""
    lines = {}
    for one in inputs:
        records = one.concatenate("records")
        sizes = [size for record in records for size in record["shots"]]
        omegas = [mean for record in records for mean in record["omega_mean"]]
        lines[one.model] = mean_by_size(sizes, omegas)
    level = 1 / inputs[0].way
    return _lines({"": lines}, "images in the class, $N_c$", r"$E[\omega_c]$", level=level)


def draw_gamma(inputs: Sequence[FigureInput]) -> Drawing:
    """E[γ] of each layer against the number of images in a task, over all columns of a model."""
    records: dict[str, list[Any]] = {}
    for one in inputs:
        records.setdefault(one.model, []).extend(one.concatenate("records"))
    panels: dict[str, dict[str, list[Point]]] = {}
    for model, tasks in records.items():
        sizes = [sum(record["shots"]) for record in tasks]
        for index, layer in enumerate(tasks[0]["layers"]):
            gammas = [record["gamma_mean"][index] for record in tasks]
            panels.setdefault(layer, {})[model] = mean_by_size(sizes, gammas)
    return _lines(panels, "images in the task, $N$", r"$E[\gamma_l]$", level=1, as_ratios=True)


def draw_starts(inputs: Sequence[FigureInput]) -> Drawing:
    """t-SNE of θ∗E[z] of the tasks of each image set, and of θ."""
    vectors = [np.array(one.concatenate("starts")) for one in inputs]
    origin = np.zeros((1, vectors[0].shape[1]))  # θ itself: the vectors are θ∗E[z] − θ
    points = embed_in_plane(np.concatenate([*vectors, origin]))
    ends = np.cumsum([len(group) for group in vectors])
    names = [one.images for one in inputs]
    groups = dict(zip(names, np.split(points[:-1], ends[:-1]), strict=True))
    return map_figure(groups, points[-1], r"$\theta$", inputs[0].model), {}


def draw_distances(inputs: Sequence[FigureInput]) -> Drawing:
    """The distance from E[θ_0] to the adapted parameters, without and with the variance of z."""
    names = {"without": r"$\theta^\tau(E[z])$", "with": r"$E[\theta^\tau(z)]$"}
    groups: dict[str, Lines] = {}
    for one in inputs:
        tasks = one.concatenate("distances")
        bars = {}
        for key, name in names.items():
            distances = [task[key] for task in tasks]
            interval = confidence_half_width(distances)
            bars[name] = [Point(0, float(np.mean(distances)), interval)]
        groups[one.images] = bars
    return bars_figure(groups, r"$\ell_2$ distance from $E[\theta_0]$"), groups


def _lines(panels: Panels, *labels: str, **options: Any) -> Drawing:
    return lines_figure(panels, *labels, **options), panels


# ---------- the kinds
class FigureKind(NamedTuple):
    """A kind of figure: the kind of measurement that it shows, and the function that draws it."""

    measurement: str
    draw: Callable[[Sequence[FigureInput]], Drawing]
    one_run: bool = False  #: it shows one run only: one model, the first seed


KINDS: dict[str, FigureKind] = {
    "accuracy-by-size": FigureKind("test", draw_accuracy_by_size),
    "samples": FigureKind("test", draw_samples),
    "gain": FigureKind("test", draw_gain),
    "gamma": FigureKind("balance", draw_gamma),
    "omega": FigureKind("balance", draw_omega),
    # Runs have different θ, and t-SNE would show the runs instead of the tasks.
    "starts": FigureKind("starts", draw_starts, one_run=True),
    "distances": FigureKind("distances", draw_distances),
}


def find_kind(spec: FigureSpec) -> FigureKind:
    """Return the kind of a figure, after checking that it can show what the figure asks for."""
    if spec.kind not in KINDS:
        raise SettingsError(
            f"There is no figure of kind {spec.kind!r}{suggestion(spec.kind, KINDS)}"
        )
    kind = KINDS[spec.kind]
    if kind.one_run and len(spec.models) != 1:
        raise SettingsError(
            f"A figure of kind {spec.kind!r} shows one model; {spec.title!r} names "
            f"{len(spec.models)}. Use one figure for each."
        )
    return kind


def measurements_for(spec: FigureSpec) -> list[tuple[str, dict[str, int], int]]:
    """(kind of measurement, changed settings of the method, value) for each model and column."""
    kind = find_kind(spec)
    return [
        (kind.measurement, {"samples": value} if spec.kind == "samples" else {}, value)
        for value in spec.values or (0,)
    ]


def draw_figure(spec: FigureSpec, inputs: Sequence[FigureInput], name: str) -> Figure:
    """Draw a figure; ``name`` is that of its files."""
    title = f"{spec.title}. {spec.note}" if spec.note else spec.title
    return Figure(name, title, *find_kind(spec).draw(inputs))


# ---------- statistics
def mean_by_size(sizes: Sequence[float], values: Sequence[float], bins: int = 8) -> list[Point]:
    """Means of values with similar sizes, in bins of equal ratio, with 95 % intervals.

    A point's x is the geometric mean of the sizes in its bin.

    >>> points = mean_by_size([1, 1, 10, 10], [0.4, 0.6, 0.1, 0.1])
    >>> [(round(point.x, 3), round(point.y, 3)) for point in points]
    [(1.0, 0.5), (10.0, 0.1)]
    """
    x = np.asarray(sizes, float)
    y = np.asarray(values, float)
    points = []
    for members in ratio_bins(x, bins):
        centre = float(np.exp(np.log(x[members]).mean()))
        interval = confidence_half_width(y[members].tolist())
        points.append(Point(centre, float(y[members].mean()), interval))
    return points


def embed_in_plane(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """t-SNE of vectors [n, d] in the plane, [n, 2]."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise AnyshotError(
            "t-SNE needs scikit-learn; run: pip install 'anyshot[sklearn]'"
        ) from error
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(vectors)
