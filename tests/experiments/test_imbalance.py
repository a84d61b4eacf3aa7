"""The harness for uneven shots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.core.registry import EXPERIMENTS
from anyshot.core.remedy import REMEDIES, parse_remedy
from anyshot.core.task_settings import parse_shots
from anyshot.experiments import available_data, plan
from anyshot.experiments.plan import make_plan
from anyshot.experiments.reproduce import Request, reproduce
from anyshot.experiments.scale import PAPER
from anyshot.methods import create_method

IMBALANCE = EXPERIMENTS["imbalance"]


@pytest.fixture
def planned(monkeypatch):
    for module in (plan, available_data):
        monkeypatch.setattr(module, "is_available", lambda images: True)
    return make_plan(IMBALANCE, replace(PAPER, seeds=1), Path("out"))


def test_models_that_differ_in_their_remedy_share_a_run(planned):
    trained = {job.settings.method.name for job in planned.jobs}
    assert trained == {"maml", "meta-sgd", "taml", "protonet", "rfs"}
    assert len(planned.jobs) == 6  # Meta-SGD twice: with and without the rule N^−τ
    assert {job.settings.method.remedy for job in planned.jobs} == {"none"}


def test_every_rule_and_every_remedy_is_measured(planned):
    measured = [one for job in planned.jobs for one in job.measurements]
    rules = {parse_shots(one.task.shots)[0] for one in measured}
    assert rules == {"fixed", "linear", "step", "random", "long-tailed"}
    remedies = {(one.method.name, parse_remedy(one.method.remedy)[0]) for one in measured}
    for method in ("meta-sgd", "rfs"):
        assert {(method, name) for name in REMEDIES} <= remedies


def test_every_model_can_be_created(planned):
    tested = {one.method for job in planned.jobs for one in job.measurements}
    assert len(tested) > 20
    for settings in tested:
        create_method(settings)


def test_gains_are_paired_with_the_same_method_without_the_remedy(tmp_path):
    some = tuple(model for model in IMBALANCE.models if model.name.startswith("RFS"))[:3]
    (block,) = IMBALANCE.blocks
    small = replace(IMBALANCE, models=some, reference="RFS", blocks=(replace(block, figures=()),))
    request = Request(small, "smoke", tmp_path)
    reproduce(request)
    rows = json.loads((request.results_folder / "results.json").read_text())["results"]["rows"]
    accuracy = {(row["model"], row["column"]): row["accuracy"] for row in rows}
    for row in rows:
        if row["model"] == "RFS":
            assert "gain_over_base" not in row
        else:
            base = accuracy["RFS", row["column"]]
            assert row["gain_over_base"]["accuracy"] == pytest.approx(row["accuracy"] - base)
    table = (request.results_folder / "table.md").read_text()
    gains = table.split("Gain in accuracy")[1]
    assert "| RFS, ROS |" in gains
    assert "| RFS |" not in gains.split("Details")[0]
