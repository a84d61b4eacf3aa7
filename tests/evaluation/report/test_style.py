from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from anyshot.evaluation.report.style import (
    escape_math,
    save_figure,
    set_ratio_axis,
    shorten,
    use_style,
)


@use_style
def a_figure() -> Figure:
    figure = Figure(figsize=(6, 4))
    figure.add_subplot().plot([1, 2], [3, 4], label="some words")
    figure.axes[0].legend()
    return figure


def test_a_figure_is_saved_as_png_and_svg_and_the_same_figure_gives_the_same_bytes(tmp_path):
    paths = save_figure(a_figure(), tmp_path / "deep" / "line")
    again = save_figure(a_figure(), tmp_path / "again")
    assert [path.name for path in paths] == ["line.png", "line.svg"]
    with Image.open(paths[0]) as image:
        assert image.width > 800
    assert "some words" in paths[1].read_text()  # text stays text
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


@pytest.mark.parametrize(
    ("values", "limits"), [([1.0], (0.5, 2)), ([0.1, 1], (0.09, 2)), ([1, 10], (0.5, 11))]
)
def test_the_ratio_axis_spans_the_values_and_at_least_half_to_double(values, limits):
    axes = Figure().add_subplot()
    set_ratio_axis(axes, values)
    np.testing.assert_allclose(axes.get_ylim(), limits)


def test_long_paths_are_shortened_to_their_end():
    assert shorten("/a/b/flowers") == "flowers"
    assert shorten("abcdefghij" * 3, length=10) == "…bcdefghij"
    assert escape_math("$x$") == r"\$x\$"
