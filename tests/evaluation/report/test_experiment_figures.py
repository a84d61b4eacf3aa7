from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anyshot.evaluation.report.experiment_figures import (
    Point,
    bars_figure,
    comparison_figure,
    lines_figure,
    map_figure,
)


def drawn(axes, label: str):
    """x, y of the line with a label."""
    (actual,) = [h for h in axes.containers if h.get_label() == label]
    return np.array(actual.lines[0].get_data())


def test_lines_go_through_their_points_and_share_the_scale():
    lines = {
        "MAML": [Point(5, 40.0, 1.0), Point(50, 60.0, 2.0)],
        "TAML": [Point(5, 45.0), Point(50, 70.0)],
    }
    figure = lines_figure({"": lines}, "images", "accuracy, %", level=20)
    (axes,) = figure.axes
    assert drawn(axes, "MAML") == pytest.approx(np.array([[5, 50], [40, 60]]))
    assert axes.get_xscale() == "log"
    assert any(np.allclose(line.get_ydata(), 20) for line in axes.lines)
    assert "95 %" in figure.get_supxlabel()


def test_ratios_have_a_logarithmic_axis():
    panels = {
        "conv1": {"a": [Point(5, 0.5), Point(50, 2.0)]},
        "head": {"a": [Point(5, 1.0), Point(50, 4.0)]},
    }
    figure = lines_figure(panels, "N", "γ", level=1, as_ratios=True)
    assert [axes.get_title() for axes in figure.axes] == ["conv1", "head"]
    assert figure.axes[0].get_yscale() == "log"
    low, high = figure.axes[1].get_ylim()
    assert low < 0.5
    assert high > 4


def test_our_accuracy_and_the_papers_are_in_one_panel(comparison):
    figure = comparison_figure(comparison)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["B. ω-TAML", "MAML"]
    ours = sorted(c.lines[0].get_xdata()[0] for c in first.containers if c.get_label() == "ours")
    paper = sorted(c.lines[0].get_xdata()[0] for c in first.containers if c.get_label() == "paper")
    assert (ours, paper) == ([50.0, 75.0], [71.55, 75.15])
    assert len(second.containers) == 1


def test_the_legend_names_the_paper_if_only_a_later_panel_has_its_numbers(comparison):
    cells = {(model, 1 - column): cell for (model, column), cell in comparison.cells.items()}
    figure = comparison_figure(replace(comparison, cells=cells))
    assert not any(c.get_label() == "paper" for c in figure.axes[0].containers)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"ours", "paper"}


def test_bars_are_as_high_as_their_numbers():
    groups = {
        "id": {"with": [Point(0, 5.2, 0.1)], "without": [Point(0, 5.1)]},
        "ood": {"with": [Point(0, 5.1)], "without": [Point(0, 4.6)]},
    }
    (axes,) = bars_figure(groups, "distance").axes
    heights = sorted(patch.get_height() for patch in axes.patches)
    assert heights == pytest.approx([4.6, 5.1, 5.1, 5.2])


def test_a_map_shows_every_point_and_the_origin():
    groups = {"a": np.ones((3, 2)), "b": np.zeros((2, 2))}
    figure = map_figure(groups, np.array([5.0, 6.0]), "start", "TAML")
    assert figure.axes[0].get_title() == "TAML"
    counts = {line.get_label(): len(line.get_xdata()) for line in figure.axes[0].lines}
    assert counts == {"a": 3, "b": 2, "start": 1}
