"""The paper's nine: their numbers, and the grids that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments import available_data, plan
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER, SHORT
from anyshot.methods import create_method

# runs of the paper's protocol: different trainings times three seeds
RUNS = {
    "any-shot": 7 * 2, "multi-dataset": 6, "ood": 3 * 2 + 1, "task-imbalance": 4, "class-imbalance": 4 * 3,
    "bayesian": 4, "encoding": 6, "statistics": 4, "initialisation": 1,
}  # fmt: skip
# sums of the accuracies of each table, as the paper has them
SUMS = {
    "any-shot": 1736.86, "multi-dataset": 1825.56, "ood": 460.43, "class-imbalance": 865.21, "bayesian": 599.45,
    "encoding": 444.66, "statistics": 497.93,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _everything_is_ready(monkeypatch):
    for module in (plan, available_data):
        monkeypatch.setattr(module, "is_available", lambda images: True)


def units(name: str, scale=PAPER):
    return make_plan(EXPERIMENTS[name], scale, Path("out")).units


def test_there_are_nine_each_by_its_own_name():
    assert len(EXPERIMENTS) == 9
    assert [EXPERIMENTS[name].name for name in EXPERIMENTS] == list(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_papers_scale_is_its_protocol(name):
    grid = make_plan(EXPERIMENTS[name], PAPER, Path("out"))
    assert grid.differences == ()
    assert len(grid.units) == 3 * RUNS[name]
    assert {unit.settings.train.seed for unit in grid.units} == {0, 1, 2}
    assert all(asked[0].probe.tasks == EXPERIMENTS[name].tasks for asked in grid.tests.values())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_model_can_be_made(name):
    for unit in units(name):
        create_method(unit.settings.method, (32, 32))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_column_has_the_papers_number_for_every_model_or_for_none(name):
    experiment = EXPERIMENTS[name]
    models = {model.name for model in experiment.models}
    assert all(column.paper.keys() in (models, set()) for column in experiment.columns)
    found = sum(
        number.accuracy for column in experiment.columns for number in column.paper.values()
    )
    assert found == pytest.approx(SUMS.get(name, 0.0))


def test_some_numbers_are_where_the_paper_has_them():
    any_shot, multi, encoding = (
        EXPERIMENTS[name] for name in ("any-shot", "multi-dataset", "encoding")
    )
    assert any_shot.columns[1].paper["MT-net"] == (49.17, 0.21)
    assert any_shot.columns[3].paper["Bayesian TAML"] == (71.71, 0.21)
    assert multi.columns[1].paper["Prototypical Networks"] == (72.31, 0.17)
    assert encoding.columns[0].paper["Mean + N, hierarchical"] == (74.88, 0.20)


def test_experiments_share_the_runs_that_they_have_in_common():
    folders = {name: {unit.folder for unit in units(name)} for name in EXPERIMENTS}
    assert len(folders["bayesian"] - folders["any-shot"]) == 3  # deterministic TAML alone
    assert (
        len(folders["encoding"] & folders["statistics"] & folders["any-shot"]) == 3
    )  # TAML as it is
    assert folders["initialisation"] < folders["ood"]


def test_at_the_short_scale_all_models_of_a_block_start_from_one_warm_body():
    grid = make_plan(EXPERIMENTS["class-imbalance"], SHORT, Path("out"))
    warm, *others = grid.units
    assert warm.settings.warm is not None
    assert {unit.settings.train.body_from for unit in others} == {warm.folder}
    assert len(others) == 12
    assert "iterations 200, not 50,000" in grid.differences


def test_a_test_of_larger_tasks_takes_fewer_of_them_at_the_short_scale():
    grid = make_plan(EXPERIMENTS["task-imbalance"], SHORT, Path("out"))
    tasks = [grid.tests["MAML", place][0].probe.tasks for place in range(8)]
    assert tasks[:5] == [tasks[0]] * 5
    assert tasks[5:] == [tasks[0] // 2, tasks[0] // 4, tasks[0] // 8]
