"""The standard few-shot protocol as an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshot.core.registry import EXPERIMENTS
from anyshot.evaluation.report.paper_table import Cell, PaperComparison, accuracy_lines
from anyshot.experiments import available_data, plan
from anyshot.experiments.available_data import with_data
from anyshot.experiments.experiment import Published
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER, SHORT, DataChoice
from anyshot.methods import create_method
from anyshot.training.presets import preset

NAMES = ("standard", "standard-64", "standard-miniimagenet")
INDUCTIVE = {"protonet", "r2d2", "simpleshot", "rfs"}


@pytest.fixture(autouse=True)
def _everything_is_ready(monkeypatch):
    for module in (plan, available_data):
        monkeypatch.setattr(module, "is_available", lambda images: True)


@pytest.mark.parametrize("name", NAMES)
def test_the_protocol_is_the_fields(name):
    for job in make_plan(EXPERIMENTS[name], PAPER, Path("out")).jobs:
        settings = job.settings
        assert (settings.task.way, settings.task.query) == (5, 15)
        assert settings.task.shots in ("fixed:1", "fixed:5")
        assert settings.ood == ()
        assert settings.train.select == "id"
        assert settings.method.transductive == (settings.method.name not in INDUCTIVE)
        assert {one.tasks for one in job.measurements} == {10_000}
        assert create_method(settings.method).stored_statistics


def test_every_model_is_tested_inductively_and_transductively_on_one_run():
    planned = make_plan(EXPERIMENTS["standard"], SHORT, Path("out"))
    trained = [job for job in planned.jobs if not job.is_pretraining]
    separate = [model for model in EXPERIMENTS["standard"].models if not model.base]
    assert len(trained) == 2 * len(separate)  # others share the run of their base
    for job in trained:
        assert {one.method.transductive for one in job.measurements} == {True, False}
        assert {one.tasks for one in job.measurements} == {600}


def test_both_shots_start_from_one_pretrained_body():
    planned = make_plan(EXPERIMENTS["standard"], SHORT, Path("out"))
    assert sum(job.is_pretraining for job in planned.jobs) == 1


@pytest.mark.parametrize(
    ("name", "images"), [("standard-64", "cifar-fs"), ("standard-miniimagenet", "miniimagenet")]
)
def test_a_body_that_the_preset_pretrains_fits_every_model(name, images):
    channels = preset(f"{images}-5shot").method.channels
    jobs = make_plan(EXPERIMENTS[name], SHORT, Path("out")).jobs
    assert {job.settings.method.channels for job in jobs} == {channels}


def test_other_image_sets_keep_shots_and_both_kinds_of_tests():
    moved = with_data(EXPERIMENTS["standard"], DataChoice(("mine",)))
    assert [column.label for column in moved.columns] == [
        "mine, 1-shot, inductive",
        "mine, 1-shot, transductive",
        "mine, 5-shot, inductive",
        "mine, 5-shot, transductive",
    ]


def test_a_published_number_is_shown_only_next_to_its_own_body():
    found = {name: [sorted(column.paper) for column in EXPERIMENTS[name].columns] for name in NAMES}
    assert found == {
        "standard": [[], ["MAML"], [], ["MAML"]],
        "standard-64": [["ProtoNet", "RFS"], [], ["ProtoNet", "RFS"], []],
        "standard-miniimagenet": [[], [], [], []],
    }
    [inductive, *_] = EXPERIMENTS["standard-64"].columns
    assert inductive.paper["RFS"] == Published(62.7)


def test_published_numbers_without_an_interval_have_none_in_the_table():
    cells = {("RFS", 0): Cell(None, Published(62.7))}
    rows = accuracy_lines(PaperComparison(("RFS",), ("1-shot",), cells, "RFS"))
    assert [cell.text for cell in rows[1]] == ["RFS", "–", "62.7", "–"]
