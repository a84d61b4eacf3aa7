from __future__ import annotations

import numpy as np
import pytest

from anyshot.evaluation.report.confusion_matrix import confusion_figure, draw_confusion

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
