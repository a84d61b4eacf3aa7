"""The files of an experiment, from results that are made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Image
from result_rows import summary

from anyshot.experiments import results as results_module
from anyshot.experiments.figures import Figure
from anyshot.experiments.plan import make_plan
from anyshot.experiments.report_files import tables, write_report
from anyshot.experiments.results import ExperimentResult, compare_models

NOTES = ("Small tasks <5>.", "One seed.")
NUMBERS = {"panel": {"MAML": [(2.0, 0.5, None)]}}


@pytest.fixture
def result(experiment, tiny_scale, monkeypatch) -> ExperimentResult:
    """TAML is right in all four tasks, the other models in three; two figures, one with numbers."""
    plan = make_plan(experiment, tiny_scale, Path("nowhere"))
    right = {"MAML": (0, 1, 1, 1), "TAML, naive": (1, 0, 1, 1), "TAML": (1, 1, 1, 1)}
    found = {id(jobs): summary(right=right[model]) for (model, _), jobs in plan.tests.items()}
    monkeypatch.setattr(results_module, "_pooled_summary", lambda jobs: found[id(jobs)])
    figures = (
        Figure("omega", "ω & size", Image(), NUMBERS),
        Figure("training", "Learning curves", Image()),
    )
    return ExperimentResult(plan, compare_models(plan), figures, NOTES)


def texts(rows) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows]


def test_tables_are_accuracy_paired_differences_and_details(result):
    found = {title: texts(rows) for title, rows in tables(result).items()}
    accuracy, paired, nll, details = found.values()
    assert list(found) == [
        "Accuracy, %",
        "Paired differences of accuracy, % points",
        "Paired differences of NLL",
        "Details",
    ]
    assert [row[0] for row in accuracy[1:]] == ["MAML", "TAML, naive", "TAML"]
    assert accuracy[3][1].startswith("100.00")
    assert [row[0] for row in paired[1:]] == ["MAML", "TAML, naive"]
    assert paired[1][1].startswith("+12.50")  # percentage points: one of eight images
    assert nll[1][1].startswith("-0.224")  # (log 0.6 − log 0.1) / 8, of the reference minus MAML
    assert len(details) == 1 + 3 * 2


@pytest.mark.parametrize(("models", "count"), [(("TAML",), 2), (("MAML", "TAML"), 4)])
def test_one_model_has_no_paired_differences(result, models, count):
    found = tables(replace(result, comparison=replace(result.comparison, models=models)))
    assert len(found) == count
    assert [*found][0 :: count - 1] == ["Accuracy, %", "Details"]


def test_without_columns_the_numbers_of_figures_are_the_tables(result):
    found = tables(replace(result, comparison=replace(result.comparison, columns=())))
    assert {title: texts(rows)[1:] for title, rows in found.items()} == {
        "ω & size": [["panel, MAML", "2", "0.5", "–"]]
    }


def test_every_file_is_written(result, tmp_path):
    write_report(result, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    pictures = {f"{name}.{kind}" for name in ("omega", "training") for kind in ("png", "svg")}
    assert names == {"results.json", "table.md", "table.tex", "report.html"} | pictures
    written = json.loads((tmp_path / "results.json").read_text())
    origin = written["origin"]
    assert (origin["experiment"], origin["scale"]) == ("mine", result.plan.scale.name)
    jobs = {Path(job.folder).name: job.settings for job in result.plan.jobs}
    assert origin["settings"].keys() == jobs.keys()
    for name, settings in jobs.items():
        assert origin["settings"][name]["train"]["seed"] == settings.train.seed
        assert origin["settings"][name]["method"]["name"] == settings.method.name
    assert written["results"]["notes"] == list(NOTES)
    assert written["results"]["pictures"]["omega"] == {"panel": {"MAML": [[2.0, 0.5, None]]}}


def test_markdown_has_title_tables_notes_and_figures_in_this_order(result, tmp_path):
    write_report(result, tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert text.endswith("\n")
    first, *paragraphs = text.strip().split("\n\n")
    assert first == "# Mine"
    titles = [f"{title}:" for title in tables(result)]
    assert paragraphs[0:8:2] == titles
    assert all(table.startswith("| ") for table in paragraphs[1:8:2])
    figures = ["![ω & size](omega.png)", "![Learning curves](training.png)"]
    assert paragraphs[8:] == [*NOTES, *figures]


def test_the_first_latex_table_has_the_notes_in_its_caption(result, tmp_path):
    write_report(result, tmp_path)
    text = (tmp_path / "table.tex").read_text()
    captions = [line for line in text.splitlines() if line.startswith(r"\caption")]
    assert captions[0] == r"\caption{Mine. Accuracy, \%. Small tasks <5>. One seed.}"
    assert captions[1] == r"\caption{Mine. Paired differences of accuracy, \% points.}"
    assert len(captions) == 4


def test_the_page_has_escaped_texts_figures_and_their_numbers(result, tmp_path):
    write_report(result, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert '<h2>Accuracy, %</h2><div class="scroll" tabindex="0"><table>' in text
    assert "<p>Small tasks &lt;5&gt;.</p>" in text
    assert text.count("data:image/png;base64,iVBORw0KGgo") == 2  # PNG, not SVG
    assert text.count("<details>") == 1
    assert text.index("data:image/png") < text.index("<details>") < text.rindex("data:image/png")
    assert "panel, MAML" in text
