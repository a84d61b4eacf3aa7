from __future__ import annotations

from types import SimpleNamespace

from result_rows import row, summary

from anyshot.evaluation.compare_runs import add_differences
from anyshot.evaluation.report.run_page import learning_curves, results_table


def test_runs_without_a_log_have_a_sentence_instead_of_empty_axes(tmp_path):
    bundled = SimpleNamespace(folder=tmp_path / "glyphs", records=list)
    assert "<img" not in learning_curves([bundled])
    assert "no training log" in learning_curves([bundled])
    record = {"kind": "iteration", "iteration": 1, "loss": 1.0, "penalty": 0.0, "accuracy": 0.5}
    trained = SimpleNamespace(folder=tmp_path / "maml", records=lambda: [record])
    assert "<img" in learning_curves([bundled, trained])


def test_the_table_escapes_names_and_shows_the_paired_difference():
    rows = [row(summary(right=right), run=run) for run, right in (("a", (0, 0)), ("<b>", (0, 1)))]
    page = results_table(add_differences(rows))
    assert "&lt;b&gt;" in page
    assert page.count("+25.0") == 1
