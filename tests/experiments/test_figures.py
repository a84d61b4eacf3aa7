from __future__ import annotations

import itertools

import numpy as np
import pytest

from anyshot.core.errors import AnyshotError
from anyshot.experiments import Picture
from anyshot.experiments.figures import DRAWN, PROBED, FigureValues, by_size, draw, measurements_for
from anyshot.experiments.measurement import KINDS


def score(index: int, shots: list[int], hits: list[int]) -> dict:
    return {"index": index, "classes": [], "shots": shots, "asked": [10] * len(shots), "hits": hits, "nll": 1.0,
            "failed": False, "more": {}}  # fmt: skip


def answer(model: str, *scores: dict) -> FigureValues:
    return FigureValues(
        model, "svhn", 2, 0, ({"scores": list(scores), "bins": [[1, 1, 1]], "seconds": 1.0},)
    )


def points(figure, label: str, panel: int = 0):
    (found,) = [c for c in figure.axes[panel].containers if c.get_label() == label]
    return np.array(found.lines[0].get_data())


def test_every_kind_asks_for_something_known_and_can_be_drawn():
    assert PROBED.keys() == DRAWN.keys()
    assert set(PROBED.values()) == KINDS.keys()
    with pytest.raises(AnyshotError, match="did you mean 'gamma'"):
        measurements_for(Picture("gama", "", ()))


def test_numbers_of_samples_become_settings_of_the_method():
    assert measurements_for(Picture("samples", "", (), values=(1, 5))) == [
        ("test", {"samples": 1}, 1),
        ("test", {"samples": 5}, 5),
    ]
    assert measurements_for(Picture("distances", "", (), values=(50,))) == [("distances", {}, 50)]


def test_gains_are_those_of_each_class_by_its_size():
    base = answer("Meta-SGD", score(0, [1, 50], [2, 9]), score(1, [1, 50], [4, 9]))
    other = answer("TAML", score(0, [1, 50], [5, 8]), score(1, [1, 50], [5, 9]))
    found = points(draw(Picture("gain", "", ()), [base, other]).figure, "TAML")
    assert found == pytest.approx(np.array([[1, 50], [20.0, -5.0]]))


def test_accuracy_stands_at_the_size_of_the_tasks():
    sizes = [answer("MAML", score(0, [n, n], [n, n]), score(1, [n, n], [n, n])) for n in (1, 5)]
    found = points(draw(Picture("accuracy-by-size", "", ()), sizes).figure, "MAML")
    assert found == pytest.approx(np.array([[2, 10], [10.0, 50.0]]))


def test_gamma_has_a_panel_a_layer_and_a_line_a_model():
    def records(*rows: tuple[int, float]) -> tuple[dict]:
        return (
            {
                "records": [
                    {"shots": [n, n], "layers": ["conv1", "head"], "gamma_mean": [g, 2 * g]}
                    for n, g in rows
                ]
            },
        )

    answers = [
        FigureValues("a", "svhn", 2, 0, records((5, 0.5), (50, 1.5))),
        FigureValues("b", "svhn", 2, 0, records((5, 1.0))),
    ]
    figure = draw(Picture("gamma", "", ()), answers).figure
    assert points(figure, "a", 1) == pytest.approx(np.array([[10, 100], [1.0, 3.0]]))
    assert points(figure, "b", 0) == pytest.approx(np.array([[10], [1.0]]))


def test_means_by_size_are_those_within_each_bin():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 51, 500)
    found = by_size(sizes, sizes**2.0)
    edges = np.geomspace(1, 50 * (1 + 1e-9), 9)
    expected = [sizes[(sizes >= a) & (sizes < b)] for a, b in itertools.pairwise(edges)]
    assert [p.y for p in found] == pytest.approx([np.mean(s**2.0) for s in expected if len(s)])
    assert [p.x for p in found] == pytest.approx(
        [np.exp(np.log(s).mean()) for s in expected if len(s)]
    )
