"""What a picture asks of runs, and how what they answered is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError
from anyshot.core.options import suggestion
from anyshot.evaluation.metrics import pool_seeds
from anyshot.evaluation.metrics.summary import confidence_half_width
from anyshot.evaluation.report.experiment_figures import (
    Lines,
    Point,
    bars_figure,
    lines_figure,
    map_figure,
)
from anyshot.experiments.experiment import Picture
from anyshot.experiments.measurement import Value, summary_of

PROBED = {
    "accuracy-by-size": "test",
    "samples": "test",
    "gain": "test",
    "gamma": "balance",
    "omega": "balance",
    "starts": "starts",
    "distances": "distances",
}  #: kind of picture -> kind of probe


@dataclass(frozen=True)
class FigureValues:
    """What runs of a model said of a column, at one of the picture's values: a value of the probe for each seed."""

    model: str
    images: str
    way: int
    value: int
    found: tuple[Value, ...]

    def each(self, key: str) -> list[Any]:
        """The lists of all seeds as one."""
        return [one for value in self.found for one in value[key]]


def measurements_for(picture: Picture) -> list[tuple[str, dict[str, int], int]]:
    """(kind of probe, changed settings of the method, value) of all that a picture asks of a model and column."""
    if picture.kind not in PROBED:
        raise AnyshotError(
            f"There is no picture {picture.kind!r}{suggestion(picture.kind, PROBED)}"
        )
    change = picture.kind == "samples"
    return [
        (PROBED[picture.kind], {"samples": value} if change else {}, value)
        for value in picture.values or (0,)
    ]


@dataclass(frozen=True)
class FigureWithNumbers:
    """A figure, and the numbers in it: by panel and line."""

    figure: Figure
    numbers: Mapping[str, Lines] = field(default_factory=dict)


def draw(picture: Picture, answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """The picture of what runs have answered."""
    return DRAWN[picture.kind](answers)


def _lines(panels: Mapping[str, Lines], *labels: str, **options: Any) -> FigureWithNumbers:
    return FigureWithNumbers(lines_figure(panels, *labels, **options), panels)


# ---------------------------------------------------------------------------------------------------- of tests
def _accuracies(
    answers: Sequence[FigureValues], x: Callable[[FigureValues], float]
) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for answer in answers:
        s = pool_seeds([summary_of(value) for value in answer.found])
        interval = None if s.interval is None else 100 * s.interval
        lines.setdefault(answer.model, []).append(Point(x(answer), 100 * s.accuracy, interval))
    return lines


def _size(answer: FigureValues) -> float:
    return float(np.mean([sum(score["shots"]) for score in answer.each("scores")]))


def accuracy_by_size(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """Accuracy against the images of a task."""
    return _lines({"": _accuracies(answers, _size)}, "images in the task, $N$", "accuracy, %")


def samples(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """Accuracy against the samples of a prediction."""
    return _lines({"": _accuracies(answers, lambda a: a.value)}, "MC samples, $S$", "accuracy, %")


def gain(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """What each model gains over the first, by the images of a class."""
    base, *others = answers
    lines = {}
    for answer in others:
        sizes, gains = [], []
        for one, two in zip(base.each("scores"), answer.each("scores"), strict=True):
            for n, asked, before, after in zip(
                one["shots"], one["asked"], one["hits"], two["hits"], strict=True
            ):
                sizes.append(n)
                gains.append(100 * (after - before) / asked)
        lines[answer.model] = by_size(sizes, gains)
    ylabel = f"accuracy − that of {base.model}, % points"
    return _lines({"": lines}, "images in the class, $N_c$", ylabel, level=0)


# ---------------------------------------------------------------------------------------------------- of ω, γ, z
def omega(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """E[ω] against the images of a class."""
    lines = {}
    for answer in answers:
        records = answer.each("records")
        sizes = [n for record in records for n in record["shots"]]
        lines[answer.model] = by_size(
            sizes, [mean for record in records for mean in record["omega_mean"]]
        )
    return _lines(
        {"": lines}, "images in the class, $N_c$", r"$E[\omega_c]$", level=1 / answers[0].way
    )


def gamma(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """E[γ] of each layer against the images of a task."""
    panels: dict[str, dict[str, list[Point]]] = {}
    for answer in answers:
        records = answer.each("records")
        sizes = [sum(record["shots"]) for record in records]
        for place, layer in enumerate(records[0]["layers"]):
            values = [record["gamma_mean"][place] for record in records]
            panels.setdefault(layer, {})[answer.model] = by_size(sizes, values)
    return _lines(panels, "images in the task, $N$", r"$E[\gamma_l]$", level=1, as_ratios=True)


def starts(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """t-SNE of θ∗E[z] of the tasks of each set, and of θ."""
    vectors = [np.array(answer.each("starts")) for answer in answers]
    together = np.concatenate([*vectors, np.zeros((1, vectors[0].shape[1]))])
    flat = tsne(together)
    ends = np.cumsum([len(group) for group in vectors])
    groups = dict(
        zip([answer.images for answer in answers], np.split(flat[:-1], ends[:-1]), strict=True)
    )
    return FigureWithNumbers(map_figure(groups, flat[-1], r"$\theta$"))


def distances(answers: Sequence[FigureValues]) -> FigureWithNumbers:
    """How far adaptation goes from E[θ_0], without and with z's variance."""
    names = {"without": r"$\theta^\tau(E[z])$", "with": r"$E[\theta^\tau(z)]$"}
    groups: dict[str, Lines] = {}
    for answer in answers:
        found = answer.each("distances")
        values = {name: [one[key] for one in found] for key, name in names.items()}
        groups[answer.images] = {
            n: [Point(0, float(np.mean(v)), confidence_half_width(v))] for n, v in values.items()
        }
    return FigureWithNumbers(bars_figure(groups, r"$\ell_2$ distance from $E[\theta_0]$"), groups)


DRAWN: dict[str, Callable[[Sequence[FigureValues]], FigureWithNumbers]] = {
    "accuracy-by-size": accuracy_by_size,
    "samples": samples,
    "gain": gain,
    "gamma": gamma,
    "omega": omega,
    "starts": starts,
    "distances": distances,
}


def by_size(sizes: Sequence[float], values: Sequence[float], bins: int = 8) -> list[Point]:
    """Means of the values whose sizes are alike, in bins of equal ratio: at the geometric mean of their sizes, with
    the 95 % interval.

    >>> [(round(point.x, 3), round(point.y, 3)) for point in by_size([1, 1, 10, 10], [0.4, 0.6, 0.1, 0.1])]
    [(1.0, 0.5), (10.0, 0.1)]
    """
    x, y = np.asarray(sizes, float), np.asarray(values, float)
    edges = np.geomspace(x.min(), x.max() * (1 + 1e-9), bins + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    points = []
    for members in (place == b for b in range(bins)):
        if members.any():
            interval = confidence_half_width(y[members].tolist())
            points.append(
                Point(float(np.exp(np.log(x[members]).mean())), float(y[members].mean()), interval)
            )
    return points


def tsne(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors [n, d] in the plane, [n, 2], near ones near."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise AnyshotError(
            "t-SNE needs scikit-learn; run: pip install 'anyshot[sklearn]'"
        ) from error
    few = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(perplexity=few, init="pca", random_state=0).fit_transform(vectors)
