from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyshot.core.errors import SettingsError
from anyshot.core.registry import EXPERIMENTS
from anyshot.evaluation.metrics.summary import confidence_half_width
from anyshot.experiments import FigureSpec, available_data, figures, measurement, plan
from anyshot.experiments.figures import (
    KINDS,
    FigureInput,
    draw_figure,
    mean_by_size,
    measurements_for,
)
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER


def score(index: int, shots: list[int], correct: list[int]) -> dict:
    counts = {"shots": shots, "queries": [10] * len(shots), "correct": correct}
    return {"index": index, "classes": [], **counts, "nll": 1.0, "failed": False, "extra": {}}


def accuracy_input(model: str, *scores: dict) -> FigureInput:
    values = {"scores": list(scores), "bins": [[1, 1, 1]], "seconds": 1.0}
    return FigureInput(model, "svhn", 2, 0, (values,))


def gamma_input(model: str, *rows: tuple[int, float]) -> FigureInput:
    """Tasks of two classes with n images each, and γ of two layers: g and 2g."""
    records = [
        {"shots": [n, n], "layers": ["conv1", "head"], "gamma_mean": [g, 2 * g]} for n, g in rows
    ]
    return FigureInput(model, "svhn", 2, 0, ({"records": records},))


def draw(kind: str, *inputs: FigureInput):
    return draw_figure(FigureSpec(kind, "Title", ("a",)), inputs, "name").image


def points(figure, label: str, panel: int = 0):
    (line,) = [c for c in figure.axes[panel].containers if c.get_label() == label]
    return np.array(line.lines[0].get_data())


def test_every_kind_of_measurement_is_drawn_by_some_kind():
    assert {kind.measurement for kind in KINDS.values()} == measurement.KINDS.keys()


def test_an_unknown_kind_gets_a_suggestion():
    with pytest.raises(SettingsError, match="did you mean 'gamma'"):
        measurements_for(FigureSpec("gama", "", ()))


def test_numbers_of_samples_become_settings_of_the_method():
    assert measurements_for(FigureSpec("samples", "", (), values=(1, 5))) == [
        ("test", {"samples": 1}, 1),
        ("test", {"samples": 5}, 5),
    ]
    spec = FigureSpec("distances", "", (), values=(50,))
    assert measurements_for(spec) == [("distances", {}, 50)]


def test_the_note_follows_the_title():
    spec = FigureSpec("gamma", "Title", ("a",), note="A note.")
    assert draw_figure(spec, [gamma_input("a", (5, 1.0))], "gamma").title == "Title. A note."


def test_gains_are_those_of_each_class_by_its_size():
    base = accuracy_input("Meta-SGD", score(0, [1, 50], [2, 9]), score(1, [1, 50], [4, 9]))
    other = accuracy_input("TAML", score(0, [1, 50], [5, 8]), score(1, [1, 50], [5, 9]))
    found = points(draw("gain", base, other), "TAML")
    assert found == pytest.approx(np.array([[1, 50], [20.0, -5.0]]))


def test_accuracy_is_drawn_at_the_size_of_the_tasks():
    inputs = [
        accuracy_input("MAML", score(0, [n, n], [n, n]), score(1, [n, n], [n, n])) for n in (1, 5)
    ]
    found = points(draw("accuracy-by-size", *inputs), "MAML")
    assert found == pytest.approx(np.array([[2, 10], [10.0, 50.0]]))


def test_gamma_has_a_panel_a_layer_and_a_line_a_model():
    figure = draw("gamma", gamma_input("a", (5, 0.5), (50, 1.5)), gamma_input("b", (5, 1.0)))
    assert points(figure, "a", 1) == pytest.approx(np.array([[10, 100], [1.0, 3.0]]))
    assert points(figure, "b", 0) == pytest.approx(np.array([[10], [1.0]]))


def test_gamma_joins_the_columns_of_a_model():
    figure = draw("gamma", gamma_input("a", (5, 0.5)), gamma_input("a", (50, 1.5)))
    assert points(figure, "a", 0) == pytest.approx(np.array([[10, 100], [0.5, 1.5]]))


def test_means_by_size_are_those_within_each_bin():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 51, 500)
    found = mean_by_size(sizes, sizes**2.0)
    edges = np.geomspace(1, 50 * (1 + 1e-9), 9)
    expected = [sizes[(sizes >= a) & (sizes < b)] for a, b in itertools.pairwise(edges)]
    assert [p.y for p in found] == pytest.approx([np.mean(s**2.0) for s in expected if len(s)])
    assert [p.x for p in found] == pytest.approx(
        [np.exp(np.log(s).mean()) for s in expected if len(s)]
    )


# ---------- t-SNE shows one θ, γ stays in the range of training
@pytest.fixture
def everything_is_ready(monkeypatch):
    for module in (plan, available_data):
        monkeypatch.setattr(module, "is_available", lambda images: True)


def test_a_map_of_initial_parameters_shows_one_run(everything_is_ready):
    planned = make_plan(EXPERIMENTS["ood"], PAPER, Path("out"))
    folders = [
        {job.folder for jobs in figure_jobs.values() for job in jobs}
        for spec, figure_jobs in planned.figures
        if spec.kind == "starts"
    ]
    assert [len(runs) for runs in folders] == [1, 1, 1]


def test_a_map_of_initial_parameters_refuses_several_models():
    with pytest.raises(SettingsError, match=r"'starts'.*'Map' names 2"):
        measurements_for(FigureSpec("starts", "Map", ("a", "b")))


def test_gamma_of_task_imbalance_is_measured_on_the_sizes_of_training(everything_is_ready):
    planned = make_plan(EXPERIMENTS["task-imbalance"], PAPER, Path("out"))
    (jobs,) = [jobs for spec, jobs in planned.figures if spec.kind == "gamma"]
    shots = [job.measurements[0].task.shots for seeds in jobs.values() for job in seeds[:1]]
    assert shots == ["fixed:1", "fixed:5", "fixed:10", "fixed:20", "fixed:50"]
    assert planned.jobs[0].settings.task.shots == "any-shot:1-50"


# ---------- the other kinds
def numbers(kind: str, *inputs: FigureInput):
    return draw_figure(FigureSpec(kind, "Title", ("a",)), inputs, "name").numbers


def test_omega_is_drawn_by_the_size_of_the_class():
    records = [{"shots": [1, 50], "omega_mean": mean} for mean in ([0.6, 0.2], [0.8, 0.4])]
    one = FigureInput("a", "svhn", 4, 0, ({"records": records[:1]}, {"records": records[1:]}))
    figure = draw("omega", one)
    assert points(figure, "a") == pytest.approx(np.array([[1, 50], [0.7, 0.3]]))
    assert [0.25, 0.25] in [list(line.get_ydata()) for line in figure.axes[0].lines]  # 1 / way


def test_accuracy_is_drawn_at_the_number_of_samples():
    scores = [score(0, [5, 5], [4, 6]), score(1, [5, 5], [10, 10])]
    inputs = [replace(accuracy_input("TAML", *scores), value=value) for value in (1, 30)]
    (lines,) = numbers("samples", *inputs).values()
    assert [(point.x, point.y) for point in lines["TAML"]] == [(1, 75.0), (30, 75.0)]
    accuracies = np.array([50.0, 100.0])
    assert lines["TAML"][0].interval == pytest.approx(confidence_half_width(accuracies.tolist()))


def test_distances_are_means_over_tasks_with_their_intervals():
    tasks = [{"without": 1.0, "with": 3.0}, {"without": 2.0, "with": 7.0}]
    (bars,) = numbers("distances", FigureInput("a", "svhn", 5, 9, ({"distances": tasks},))).values()
    (without,), (with_z,) = bars.values()
    assert (without.y, with_z.y) == (1.5, 5.0)
    assert without.interval == pytest.approx(confidence_half_width([1.0, 2.0]))


def test_a_map_has_the_tasks_of_each_set_and_theta(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "embed_in_plane", lambda vectors: 10 * vectors)
    monkeypatch.setattr(figures, "map_figure", lambda *call: drawn.append(call))
    inputs = [
        FigureInput("a", "cifar-fs", 5, 0, ({"starts": [[1, 2], [3, 4]]},)),
        FigureInput("a", "svhn", 5, 0, ({"starts": [[5, 6]]},)),
    ]
    draw("starts", *inputs)
    ((groups, origin, _, title),) = drawn
    assert title == "a"  # the model
    assert {name: group.tolist() for name, group in groups.items()} == {
        "cifar-fs": [[10, 20], [30, 40]],
        "svhn": [[50, 60]],
    }
    assert origin.tolist() == [0, 0]


@pytest.mark.parametrize(("vectors", "perplexity"), [(4, 1.0), (31, 10.0), (200, 30.0)])
def test_perplexity_fits_the_number_of_vectors(monkeypatch, vectors, perplexity):
    manifold = pytest.importorskip("sklearn.manifold")
    options = {}

    class FakeTSNE:
        def __init__(self, **chosen):
            options.update(chosen)

        def fit_transform(self, vectors):
            return vectors[:, :2]

    monkeypatch.setattr(manifold, "TSNE", FakeTSNE)
    assert figures.embed_in_plane(np.zeros((vectors, 5))).shape == (vectors, 2)
    assert (options["perplexity"], options["random_state"]) == (perplexity, 0)
