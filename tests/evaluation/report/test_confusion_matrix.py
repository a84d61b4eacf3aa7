from __future__ import annotations

import re

import numpy as np
import pytest

from anyshot.evaluation.report.confusion_matrix import confusion_figure, draw_confusion
from anyshot.evaluation.report.html import confusion_page

COUNTS = np.array([[6, 2, 0], [0, 3, 1], [0, 0, 0]])


def test_rows_are_true_classes_and_columns_are_predicted_classes():
    figure = draw_confusion(["ant", "bee", "cat"], COUNTS)
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("true class", "predicted class")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ant", "bee", "cat"]
    numbers = {text.get_position(): int(text.get_text()) for text in axes.texts}
    for row, column in np.ndindex(3, 3):
        assert numbers[column, row] == COUNTS[row, column]  # positions are (x, y)


def test_shades_are_shares_of_the_true_class():
    (image,) = draw_confusion(["ant", "bee", "cat"], COUNTS).axes[0].images
    expected = [[0.75, 0.25, 0], [0, 0.75, 0.25], [0, 0, 0]]
    np.testing.assert_allclose(image.get_array(), expected)


@pytest.mark.parametrize(("classes", "numbers"), [(30, 900), (31, 0)])
def test_counts_are_written_only_where_they_fit(classes, numbers):
    counts = np.eye(classes, dtype=np.int64)
    figure = draw_confusion([str(c) for c in range(classes)], counts)
    assert len(figure.axes[0].texts) == numbers


def test_dollar_signs_in_a_name_are_no_formula(tmp_path):
    confusion_figure(["$x_{$", "$"], np.eye(2, dtype=np.int64), tmp_path / "deep" / "confusion.svg")
    assert (tmp_path / "deep" / "confusion.svg").stat().st_size > 1000


def test_the_page_links_each_count_to_its_photos():
    cells = {(0, 0): ["A"], (0, 1): ["B"], (1, 1): ["C"], (1, 2): ["D"]}
    page = confusion_page(["ant", "bee", "cat"], COUNTS, cells)
    ant = re.search(r"<tr><th>ant</th>(.*?)</tr>", page)[1]
    expected = ['<a href="#cell-0-0">6</a>', '<a href="#cell-0-1">2</a>', "0"]
    assert re.findall(r"<td>(.*?)</td>", ant) == expected
    section = re.search(r'id="cell-0-1">(.*?)</section>', page, re.S)[1]
    assert "ant predicted as bee" in section
    assert "B" in section
