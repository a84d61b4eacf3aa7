"""The paper's nine experiments: their numbers, and the runs that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments import available_data, plan
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER, SHORT
from anyshot.methods import create_method

# Runs of each experiment: different trainings times three seeds. The map of initial parameters of
# the block "multi" in "ood" shows one run.
RUNS = {
    "any-shot": 3 * 7 * 2, "multi-dataset": 3 * 6, "ood": 3 * 3 * 2 + 1, "task-imbalance": 3 * 4,
    "class-imbalance": 3 * 5 * 3, "bayesian": 3 * 4, "encoding": 3 * 6, "statistics": 3 * 4,
    "initialisation": 3,
}  # fmt: skip
# Sums of the accuracies of each table of the paper.
SUMS = {
    "any-shot": 1736.86, "multi-dataset": 1825.56, "ood": 460.43, "class-imbalance": 865.21,
    "bayesian": 599.45, "encoding": 444.66, "statistics": 497.93,
}  # fmt: skip
# The paper's training protocol (appendix "Experimental setup"), by its first training set:
# way, iterations, meta-batch, learning rate, validation sets out of distribution.
PROTOCOL = {
    "cifar-fs": (5, 50_000, 4, 1e-3, ("svhn",)),
    "miniimagenet": (5, 80_000, 1, 1e-4, ("cub",)),
    "aircraft": (10, 60_000, 3, 1e-3, ()),
}
SHOTS = {"class-imbalance": {"fixed:10", "class-imbalance:5-25", "class-imbalance:1-50"}}
# The paper does not state the number of tasks of its figures of task imbalance.
TASKS = {"task-imbalance": 1000}


@pytest.fixture(autouse=True)
def _everything_is_ready(monkeypatch):
    for module in (plan, available_data):
        monkeypatch.setattr(module, "is_available", lambda images: True)


def jobs(name: str, scale=PAPER):
    return make_plan(EXPERIMENTS[name], scale, Path("out")).jobs


def test_there_are_nine_and_all_experiments_have_their_own_names():
    assert list(EXPERIMENTS)[:9] == list(RUNS)
    assert [EXPERIMENTS[name].name for name in EXPERIMENTS] == list(EXPERIMENTS)


@pytest.mark.parametrize("name", RUNS)
def test_the_scale_paper_trains_as_the_paper_does(name):
    planned = jobs(name)
    assert len(planned) == RUNS[name]
    assert {job.settings.train.seed for job in planned} == {0, 1, 2}
    assert {job.settings.task.shots for job in planned} == SHOTS.get(name, {"any-shot:1-50"})
    for settings in (job.settings for job in planned):
        way, iterations, meta_batch, rate, ood = PROTOCOL[settings.images[0]]
        train = settings.train
        assert (settings.task.way, settings.task.query) == (way, 15)
        assert (train.iterations, train.meta_batch, train.rate) == (iterations, meta_batch, rate)
        assert (train.decay, train.clip, train.body_from) == ("none", 3.0, None)
        assert (train.validate_every, train.validation_tasks) == (10_000, 3_000)
        assert (settings.method.steps, settings.method.test_steps) == (5, 10)
        assert (settings.method.order, settings.method.start) == (2, "paper")
        assert settings.ood == ood


@pytest.mark.parametrize("name", RUNS)
def test_the_scale_paper_tests_as_the_paper_does(name):
    tests = make_plan(EXPERIMENTS[name], PAPER, Path("out")).tests
    measured = [job.measurements[0] for seeds in tests.values() for job in seeds]
    assert {one.tasks for one in measured} <= {TASKS.get(name, 3000)}
    assert {one.task.query for one in measured} <= {15}
    assert {one.method.test_steps for one in measured} <= {10}
    assert {len(seeds) for seeds in tests.values()} <= {3}


@pytest.mark.parametrize("name", RUNS)
def test_every_model_can_be_created(name):
    for settings in {job.settings.method for job in jobs(name)}:
        create_method(settings, (32, 32))


@pytest.mark.parametrize("name", RUNS)
def test_a_column_has_the_papers_number_for_every_model_or_for_none(name):
    experiment = EXPERIMENTS[name]
    models = {model.name for model in experiment.models} - {"Meta-SGD, class means"}  # ours
    assert all(column.paper.keys() in (models, set()) for column in experiment.columns)
    accuracies = [one.accuracy for column in experiment.columns for one in column.paper.values()]
    assert sum(accuracies) == pytest.approx(SUMS.get(name, 0.0))


def test_some_numbers_are_at_their_place_in_the_paper():
    any_shot, multi, encoding = (
        EXPERIMENTS[name] for name in ("any-shot", "multi-dataset", "encoding")
    )
    assert any_shot.columns[1].paper["MT-net"] == (49.17, 0.21)
    assert any_shot.columns[3].paper["Bayesian TAML"] == (71.71, 0.21)
    assert multi.columns[1].paper["Prototypical Networks"] == (72.31, 0.17)
    assert encoding.columns[0].paper["Mean + N, hierarchical"] == (74.88, 0.20)


def test_experiments_share_runs():
    folders = {name: {job.folder for job in jobs(name)} for name in RUNS}
    assert len(folders["bayesian"] - folders["any-shot"]) == 3  # deterministic TAML
    # TAML as it is
    assert len(folders["encoding"] & folders["statistics"] & folders["any-shot"]) == 3
    assert folders["initialisation"] < folders["ood"]


def test_all_models_of_a_block_start_from_one_body_at_the_short_scale():
    planned = make_plan(EXPERIMENTS["class-imbalance"], SHORT, Path("out"))
    pretraining, *others = planned.jobs
    assert pretraining.is_pretraining
    assert {job.settings.train.body_from for job in others} == {pretraining.folder}
    assert len(others) == 15  # five methods, three shot rules
    assert "iterations 200, not 50,000" in planned.differences


def test_the_short_scale_tests_fewer_of_the_large_tasks():
    planned = make_plan(EXPERIMENTS["task-imbalance"], SHORT, Path("out"))
    tasks = [planned.tests["MAML", column][0].measurements[0].tasks for column in range(8)]
    assert tasks[:5] == [tasks[0]] * 5
    assert tasks[5:] == [tasks[0] // 2, tasks[0] // 4, tasks[0] // 8]
