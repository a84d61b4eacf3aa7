from __future__ import annotations

import re
from dataclasses import replace

import pytest

from anyshot.evaluation.metrics import PairedDifference
from anyshot.evaluation.report.paper_table import (
    TableCell,
    accuracy_lines,
    detail_lines,
    excludes_zero,
    html,
    latex,
    markdown,
    paired_lines,
)


def test_a_row_holds_our_accuracy_the_papers_and_the_difference(comparison):
    heading, maml, taml = accuracy_lines(comparison)
    assert [cell.text for cell in heading] == ["", "CIFAR-FS", "paper", "difference", "own"]
    assert [cell.text for cell in maml] == ["MAML", "50.00 ± 56.58", "71.55 ± 0.23", "-21.55", "–"]
    assert [cell.bold for cell in taml] == [False, True, False, False, False]


def test_paired_rows_hold_the_paired_differences(comparison):
    heading, maml = paired_lines(comparison, "accuracy", 100)
    assert heading[0].text == "B. ω-TAML minus"
    assert maml[1] == TableCell("+25.00 ± 20.00", True)
    assert maml[2].text == "–"


def test_differences_of_nll_have_their_own_interval(comparison):
    cell = replace(comparison.cells["MAML", 0], ahead=PairedDifference(3, 0.25, 0.2, -0.0004, 0.1))
    _, maml = paired_lines(
        replace(comparison, cells={**comparison.cells, ("MAML", 0): cell}), "nll"
    )
    assert maml[1] == TableCell("+0.000 ± 0.100", False)
    cell = replace(cell, ahead=PairedDifference(3, 0.0, 0.2, -0.25, 0.1))
    _, maml = paired_lines(
        replace(comparison, cells={**comparison.cells, ("MAML", 0): cell}), "nll"
    )
    assert maml[1] == TableCell("-0.250 ± 0.100", True)


@pytest.mark.parametrize(
    ("accuracy", "interval", "expected"), [(0.1, 0.05, True), (-0.1, 0.05, True), (0.1, 0.2, False)]
)
def test_an_interval_excludes_zero_on_either_side(accuracy, interval, expected):
    assert excludes_zero(PairedDifference(3, accuracy, interval, 0.0, 0.0)) is expected
    assert excludes_zero(PairedDifference(3, 0.0, 0.0, accuracy, interval), "nll") is expected
    assert excludes_zero(PairedDifference(3, accuracy, None, 0.0, None)) is False


def test_details_leave_out_shots_that_never_occur(comparison):
    heading, *lines = detail_lines(comparison)
    assert [cell.text for cell in heading[5:8]] == ["1 shot", "tasks", "runs"]
    assert len(lines) == 3


def test_each_form_has_every_number_and_marks_the_best(comparison):
    lines = accuracy_lines(comparison)
    forms = markdown(lines), latex(lines, "50 % of it_all"), html(lines)
    for form, bold in zip(
        forms,
        ("**75.00 ± 49.00**", r"\textbf{75.00 $\pm$ 49.00}", "<b>75.00 ± 49.00</b>"),
        strict=True,
    ):
        assert "71.55" in form
        assert bold in form
    assert r"50 \% of it\_all" in forms[1]
    assert r"B. $\omega$-TAML" in forms[1]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in forms[0].splitlines()}
    assert counts == {6}
