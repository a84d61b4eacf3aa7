from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.evaluation.report.paper_table import accuracy_lines, paired_lines
from anyshot.experiments import results as outcomes
from anyshot.experiments.plan import make_plan
from anyshot.experiments.results import collect, results
from anyshot.experiments.run_jobs import run_jobs


def summary(hits: list[int]) -> Summary:
    """A test of tasks with ten query images, so many of which were recognised."""
    metrics = Metrics()
    for index, n in enumerate(hits):
        labels = [0, 1] * 5
        rows = [
            [0.9, 0.1] if (label == 0) == (i < n) else [0.1, 0.9] for i, label in enumerate(labels)
        ]
        metrics.update(TaskResult(index, rows, labels, [1, 1]))
    return metrics.compute()


@pytest.mark.parametrize(
    ("taml", "best"),
    [([6, 8, 5, 9], None), ([8, 9, 7, 10], "TAML"), ([3, 4, 3, 5], "MAML")],
    ids=["sometimes ahead", "always ahead", "always behind"],
)
def test_the_best_is_marked_only_where_it_is_ahead_of_every_other_task_by_task(
    experiment, tiny_scale, monkeypatch, taml, best
):
    tests = {"MAML": [6, 7, 6, 8], "TAML, naive": [5, 6, 4, 7], "TAML": taml}
    plan = make_plan(experiment, tiny_scale, Path("nowhere"))
    of = {id(asked): tests[model] for (model, _), asked in plan.tests.items()}
    monkeypatch.setattr(outcomes, "_summary", lambda asked: summary(of[id(asked)]))
    cells = outcomes.table(plan).cells
    assert [model for (model, place), cell in cells.items() if cell.best and place == 0] == (
        [best] if best else []
    )
    difference = (sum(taml) - sum(tests["MAML"])) / 40
    assert cells["MAML", 0].ahead.accuracy == pytest.approx(difference)
    assert cells["TAML", 0].ahead is None


@pytest.fixture(scope="module")
def outcome(experiment, tiny_scale, tmp_path_factory):
    plan = make_plan(experiment, replace(tiny_scale, seeds=2), tmp_path_factory.mktemp("grid"))
    assert run_jobs(plan.units) == {}
    return collect(plan, {}, ["other is far away."])


def test_the_seeds_of_a_model_are_one_row(outcome):
    cell = outcome.beside.cells["TAML", 1]
    assert cell.summary.runs == 2
    assert len(cell.summary.scores) == 2 * cell.summary.tasks
    assert cell.summary.support_most == 2  # its column has shots of its own


def test_the_caption_says_all_that_differs_from_the_paper(outcome):
    text = outcome.caption
    for words in (
        "iterations 2, not 50,000", "way 3, not 5", "2 seeds, not 3", "3 test tasks, not 3,000", "steps 1, not 5",
        "other is far away.", "tiny, not cifar-fs", "Learned from tiny: tiny, other, fixed:2.",
    ):  # fmt: skip
        assert words in text


def test_a_failure_is_told_and_leaves_a_gap(outcome):
    plan = outcome.plan
    gone = {
        ("MAML", p): tuple(a._replace(folder="gone") for a in plan.tests["MAML", p]) for p in (0, 1)
    }
    found = collect(
        replace(plan, tests={**plan.tests, **gone}), {"gone": "The loss is no longer finite."}
    )
    assert "MAML failed: The loss is no longer finite." in found.caption
    assert accuracy_lines(found.beside)[1][1].text == "–"
    assert paired_lines(found.beside)[1][1].text == "–"


def test_the_results_hold_every_pair_of_models(outcome):
    pairs = results(outcome)["pairs"]
    assert [(p["model"], p["minus"]) for p in pairs[:3]] == [
        ("MAML", "TAML, naive"), ("MAML", "TAML"), ("TAML, naive", "TAML"),
    ]  # fmt: skip
    assert len(pairs) == 6
    cells = outcome.beside.cells
    expected = cells["MAML", 0].summary.accuracy - cells["TAML", 0].summary.accuracy
    assert pairs[1]["accuracy"] == pytest.approx(expected)


def test_a_caption_names_weights_that_the_models_start_from(outcome, tmp_path, monkeypatch):
    plan = outcome.plan
    train = replace(plan.units[0].settings.train, body_from="glyphs")
    units = tuple(
        replace(unit, settings=replace(unit.settings, train=train)) for unit in plan.units
    )
    words = "one warm start of the body (that of the weights glyphs)"
    assert words in collect(replace(plan, units=units), {}).caption
    assert words not in outcome.caption


def test_the_results_name_runs_tasks_and_differences(outcome):
    rows = results(outcome)["rows"]
    assert len(rows) == 6
    assert {row["reference"] for row in rows} == {"TAML"}
    folders = {Path(unit.folder).name for unit in outcome.plan.units}
    assert all(
        set(row["run_names"]) <= folders and len(row["run_names"]) == row["runs"] == 2
        for row in rows
    )
    maml = next(row for row in rows if row["model"] == "MAML")
    expected = outcome.beside.cells["TAML", 0].summary.accuracy - maml["accuracy"]
    assert maml["reference_minus_this"].accuracy == pytest.approx(expected)
