from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import anyshot
from anyshot.core.errors import RunError
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.evaluation.report.paper_table import accuracy_lines, paired_lines
from anyshot.evaluation.report.result_files import write_results
from anyshot.experiments import results as results_module
from anyshot.experiments.experiment import Published
from anyshot.experiments.plan import make_plan
from anyshot.experiments.reproduce import run_jobs
from anyshot.experiments.results import collect, compare_models, results_as_dict

PUBLISHED = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*/results.json"))


def summary(correct: list[int]) -> Summary:
    """A test of tasks with ten query images, with this many correct answers in each task."""
    metrics = Metrics()
    for index, n in enumerate(correct):
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
def test_the_best_model_beats_every_other_by_the_paired_interval(
    experiment, tiny_scale, monkeypatch, taml, best
):
    correct = {"MAML": [6, 7, 6, 8], "TAML, naive": [5, 6, 4, 7], "TAML": taml}
    plan = make_plan(experiment, tiny_scale, Path("nowhere"))
    by_jobs = {id(jobs): correct[model] for (model, _), jobs in plan.tests.items()}
    monkeypatch.setattr(results_module, "_pooled_summary", lambda jobs: summary(by_jobs[id(jobs)]))
    cells = compare_models(plan).cells
    marked = [model for (model, column), cell in cells.items() if cell.best and column == 0]
    assert marked == ([best] if best else [])
    difference = (sum(taml) - sum(correct["MAML"])) / 40
    assert cells["MAML", 0].ahead.accuracy == pytest.approx(difference)
    assert cells["TAML", 0].ahead is None


def test_published_numbers_are_drawn_and_written(experiment, tiny_scale, monkeypatch):
    block = experiment.blocks[0]
    published = {model.name: Published(50.0 + i, 0.5) for i, model in enumerate(experiment.models)}
    first = replace(block.columns[0], paper=published)
    with_paper = replace(experiment, blocks=(replace(block, columns=(first, block.columns[1])),))
    monkeypatch.setattr(results_module, "_pooled_summary", lambda jobs: summary([6, 7, 6, 8]))
    for one, names in ((experiment, []), (with_paper, ["accuracy"])):
        result = collect(make_plan(one, tiny_scale, Path("nowhere")), {})
        assert [figure.name for figure in result.figures] == names
    papers = [row["paper"] for row in results_as_dict(result)["rows"]]
    assert papers[:3] == [{"accuracy": 50.0 + i, "interval": 0.5} for i in range(3)]
    assert papers[3:] == [None] * 3


def test_a_figure_needs_every_measurement(experiment, tiny_scale, monkeypatch):
    plan = make_plan(experiment, replace(tiny_scale, seeds=2), Path("nowhere"))
    jobs, column = plan.tests["TAML", 0], experiment.columns[0]
    for measured, complete in (([{}, {}], True), ([{}], False)):
        monkeypatch.setattr(results_module, "_read_measurements", lambda jobs, m=measured: m)
        with nullcontext() if complete else pytest.raises(RunError, match="TAML was measured on"):
            assert results_module._figure_input("TAML", column, 7, jobs).value == 7


@pytest.fixture(scope="module")
def result(experiment, tiny_scale, tmp_path_factory):
    plan = make_plan(experiment, replace(tiny_scale, seeds=2), tmp_path_factory.mktemp("grid"))
    assert run_jobs(plan.jobs) == {}
    return collect(plan, {}, ["other is far away."])


def test_the_seeds_of_a_model_are_pooled(result):
    cell = result.comparison.cells["TAML", 1]
    assert cell.summary.runs == 2
    assert len(cell.summary.scores) == 2 * cell.summary.tasks
    assert cell.summary.support_most == 2  # the column's own shots


def test_the_caption_lists_all_differences_from_the_paper(result):
    for words in (
        "iterations 2, not 50,000",
        "way 3, not 5",
        "2 seeds, not 3",
        "3 test tasks, not 3,000",
        "steps 1, not 5",
        "other is far away.",
        "tiny, not cifar-fs",
        "tiny: tiny, other, fixed:2.",
    ):
        assert words in result.caption_paragraph


def test_a_failed_model_has_a_sentence_and_an_empty_cell(result):
    plan = result.plan
    gone = {
        ("MAML", column): tuple(replace(job, folder="gone") for job in plan.tests["MAML", column])
        for column in (0, 1)
    }
    failed = collect(replace(plan, tests={**plan.tests, **gone}), {"gone": "The loss is NaN."})
    assert "MAML failed: The loss is NaN." in failed.caption_paragraph
    assert accuracy_lines(failed.comparison)[1][1].text == "–"
    assert paired_lines(failed.comparison)[1][1].text == "–"


def test_failed_pretraining_has_a_sentence(result):
    assert (
        "Pre-training failed: Full."
        in collect(result.plan, {"elsewhere": "Full."}).caption_paragraph
    )


def test_the_results_hold_every_pair_of_models(result):
    pairs = results_as_dict(result)["pairs"]
    assert [(p["model"], p["minus"]) for p in pairs[:3]] == [
        ("MAML", "TAML, naive"),
        ("MAML", "TAML"),
        ("TAML, naive", "TAML"),
    ]
    assert len(pairs) == 6
    cells = result.comparison.cells
    expected = cells["MAML", 0].summary.accuracy - cells["TAML", 0].summary.accuracy
    assert pairs[1]["accuracy"] == pytest.approx(expected)


def test_the_caption_names_the_weights_that_models_start_from(result):
    plan = result.plan
    train = replace(plan.jobs[0].settings.train, body_from="glyphs")
    jobs = tuple(replace(job, settings=replace(job.settings, train=train)) for job in plan.jobs)
    assert "(weights glyphs)" in collect(replace(plan, jobs=jobs), {}).caption_paragraph
    assert "weights glyphs" not in result.caption_paragraph


def test_a_data_frame_of_the_results_equals_that_of_their_file(result, tmp_path):
    write_results(tmp_path / "results.json", results_as_dict(result))
    frame = result.to_frame()
    pd.testing.assert_frame_equal(frame, anyshot.read_results(tmp_path / "results.json"))
    cells = result.comparison.cells
    assert list(frame["model"]) == [model for model, _ in cells]
    assert list(frame["accuracy"]) == [cell.summary.accuracy for cell in cells.values()]


def test_the_results_name_runs_and_differences(result):
    rows = results_as_dict(result)["rows"]
    assert len(rows) == 6
    assert {row["reference"] for row in rows} == {"TAML"}
    folders = {Path(job.folder).name for job in result.plan.jobs}
    assert all(
        set(row["run_names"]) <= folders and len(row["run_names"]) == row["runs"] == 2
        for row in rows
    )
    maml = next(row for row in rows if row["model"] == "MAML")
    expected = result.comparison.cells["TAML", 0].summary.accuracy - maml["accuracy"]
    assert maml["reference_minus_this"].accuracy == pytest.approx(expected)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_published_results_have_the_keys_that_are_written_today(path, result):
    published = json.loads(path.read_text())["results"]
    today = results_as_dict(result)
    assert published.keys() == today.keys()
    if published["rows"]:
        assert published["rows"][0].keys() == today["rows"][0].keys()
    if published["pairs"]:
        assert published["pairs"][0].keys() == today["pairs"][0].keys()


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_published_tables_have_the_numbers_of_their_results(path):
    table = (path.parent / "table.md").read_text()
    for row in json.loads(path.read_text())["results"]["rows"]:
        assert f"{100 * row['accuracy']:.2f} ± {100 * row['interval']:.2f}" in table
