from __future__ import annotations

import pytest

from anyshot.core.errors import SettingsError
from anyshot.experiments import Block, Column, Experiment, FigureSpec, Model, parse_published


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(SettingsError, match=r"\[1, 2\]"):
        parse_published("MAML 71.55±0.23 45.17±0.22\nMeta-SGD 72.71±0.21")


def test_row_names_may_contain_spaces_and_digits():
    (column,) = parse_published("Mean + Var. + N, flat  73.93±0.21\nMeta-SGD with 1/N  71.33±0.19")
    assert list(column) == ["Mean + Var. + N, flat", "Meta-SGD with 1/N"]


def test_a_figure_names_only_models_of_the_experiment():
    spec = FigureSpec("omega", "E[ω]", ("TAMLL",))
    blocks = (Block("glyphs", (Column("glyphs"),), figures=(spec,)),)
    with pytest.raises(SettingsError, match="did you mean 'TAML'"):
        Experiment("x", "x", (Model("TAML"),), blocks)


def test_the_reference_is_a_model_of_the_experiment():
    with pytest.raises(SettingsError, match="no model 'MAML'"):
        Experiment("x", "x", (Model("TAML"),), (Block("glyphs"),), reference="MAML")


def test_models_need_different_names():
    with pytest.raises(SettingsError, match=r"\['a', 'a'\]"):
        Experiment("x", "x", (Model("a", "maml"), Model("a")), (Block("glyphs"),))


def test_an_experiment_needs_a_block():
    with pytest.raises(SettingsError, match="block"):
        Experiment("x", "x", (Model("a"),), ())


def test_the_reference_is_the_last_model_by_default():
    models = (Model("a", "maml"), Model("b"))
    assert Experiment("x", "x", models, (Block("glyphs"),)).reference_model == "b"
    assert Experiment("x", "x", models, (Block("glyphs"),), reference="a").reference_model == "a"
