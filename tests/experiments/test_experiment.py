from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.experiments import Block, Column, Experiment, Model, Picture, published


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(AnyshotError, match=r"\[1, 2\] numbers"):
        published("MAML 71.55±0.23 45.17±0.22\nMeta-SGD 72.71±0.21")


def test_names_with_spaces_and_figures_stay_whole():
    (column,) = published("Mean + Var. + N, flat  73.93±0.21\nMeta-SGD with 1/N  71.33±0.19")
    assert list(column) == ["Mean + Var. + N, flat", "Meta-SGD with 1/N"]


def test_an_experiment_names_only_models_that_it_has():
    picture = Picture("omega", "E[ω]", ("TAMLL",))
    with pytest.raises(AnyshotError, match="did you mean 'TAML'"):
        Experiment(
            "x", "x", (Model("TAML"),), (Block("glyphs", (Column("glyphs"),), pictures=(picture,)),)
        )
    with pytest.raises(AnyshotError, match="no model 'MAML'"):
        Experiment("x", "x", (Model("TAML"),), (Block("glyphs"),), reference="MAML")


def test_models_need_different_names():
    with pytest.raises(AnyshotError, match="different names"):
        Experiment("x", "x", (Model("a", "maml"), Model("a")), (Block("glyphs"),))


def test_the_last_model_is_what_others_are_compared_with_unless_another_is_named():
    models = (Model("a", "maml"), Model("b"))
    assert Experiment("x", "x", models, (Block("glyphs"),)).compared_with == "b"
    assert Experiment("x", "x", models, (Block("glyphs"),), reference="a").compared_with == "a"
