from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from figure_texts import assert_no_text_overlaps, words

from anyshot.evaluation.inspection import BalanceRecord
from anyshot.evaluation.report import balancing_figures as figures
from anyshot.evaluation.report.style import save_figure

LAYERS = ("conv 1", "conv 2", "conv 3", "conv 4", "head")


def records(images=("glyphs", "digits"), tasks=30, way=5, most=50) -> list[BalanceRecord]:
    rng = np.random.default_rng(0)
    out = []
    for place, name in enumerate(images):
        for index in range(tasks):
            uneven = rng.integers(1, most + 1, way)
            shots = uneven if index % 2 else np.repeat(uneven[0], way)
            omega = shots**-0.5 / np.sum(shots**-0.5)
            out.append(
                BalanceRecord(
                    name,
                    index,
                    tuple(shots.tolist()),
                    LAYERS,
                    omega_mean=omega.tolist(),
                    omega_std=(omega / 5).tolist(),
                    gamma_mean=[1.0 + 0.1 * place] * 4 + [9 - math.log(shots.sum())],
                    gamma_std=[0.1] * 5,
                    z_norm=float(3 + place + rng.normal(0, 0.3)),
                    z_std=0.2,
                )
            )
    return out


@pytest.mark.parametrize(
    "images",
    [
        ("glyphs",),
        ("glyphs", "digits"),
        ("aircraft", "quickdraw", "vgg-flower", "/a/very long name of a folder"),
    ],
)
def test_no_texts_overlap_in_the_balance_figures(images):
    drawn = figures.balance_figures(records(images))
    assert list(drawn) == ["omega", "gamma", "z"]
    for figure in drawn.values():
        assert_no_text_overlaps(figure)


def test_omega_is_drawn_against_class_size_with_equal_weights_as_a_line():
    figure = figures.omega_figure(records())
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert "N_c" in axes.get_xlabel()
    assert r"\omega_c" in axes.get_ylabel()
    trend = next(line for line in axes.lines if line.get_label() == "glyphs")
    x, y = trend.get_data()
    assert np.all(np.diff(x) > 0)
    assert np.all(np.diff(y) < 0)  # small classes count for more in these records
    assert any(list(line.get_ydata()) == [1, 1] for line in axes.lines)


def test_the_panels_of_gamma_share_one_ratio_axis():
    figure = figures.gamma_figure(records())
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    low, high = figure.axes[0].get_ylim()
    assert figure.axes[0].get_yscale() == "log"
    assert low <= 0.5
    assert high > max(max(r.gamma_mean) for r in records())
    nearly_one = [replace(r, gamma_mean=[1.01] * 5) for r in records()]
    assert figures.gamma_figure(nearly_one).axes[0].get_ylim() == (0.5, 2)


def test_a_note_explains_dots_bars_and_lines():
    drawn = figures.balance_figures(records())
    for name in ("omega", "gamma"):
        assert "Thin bars" in words(drawn[name])
        assert "Lines: means over" in words(drawn[name])
    assert "Hollow dots" in words(drawn["omega"])
    uneven = [r for r in records() if len(set(r.shots)) > 1]
    assert "Hollow" not in words(figures.omega_figure(uneven))
    assert "Line: median." in words(drawn["z"])


def test_the_axis_of_z_starts_at_zero():
    assert figures.z_figure(records()).axes[0].get_ylim()[0] == 0


def test_every_task_is_a_dot_in_every_layers_panel():
    figure = figures.gamma_figure(records(("glyphs",), tasks=12))
    assert [axes.get_title() for axes in figure.axes] == [
        "conv 1",
        "conv 2",
        "conv 3",
        "conv 4",
        "head",
    ]
    for axes in figure.axes:
        assert max(len(line.get_xdata()) for line in axes.lines) == 12


def test_bars_of_positive_variables_do_not_reach_below_zero():
    wild = [
        BalanceRecord(
            "a",
            i,
            (1, i + 2),
            LAYERS,
            omega_mean=[0.1, 0.9],
            omega_std=[0.5, 0.5],
            gamma_mean=[0.1] * 5,
            gamma_std=[3.0] * 5,
        )
        for i in range(9)
    ]
    for figure in (figures.omega_figure(wild), figures.gamma_figure(wild)):
        for axes in figure.axes:
            lows = [
                segment[:, 1].min() for bars in axes.collections for segment in bars.get_segments()
            ]
            assert min(lows) >= 0


def test_the_bar_of_z_spans_the_quartiles_and_its_line_is_the_median():
    some = records(("glyphs",))
    (axes,) = figures.z_figure(some).axes
    low, middle, high = statistics.quantiles([r.z_norm for r in some], n=4, method="inclusive")
    assert list(axes.lines[-2].get_ydata()) == pytest.approx([low, high])
    assert list(axes.lines[-1].get_ydata()) == pytest.approx([middle, middle])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["glyphs"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_one_task_and_equal_sizes_can_be_drawn(tasks, tmp_path):
    same = [
        BalanceRecord(
            "a",
            i,
            (5, 5),
            LAYERS,
            omega_mean=[0.5, 0.5],
            omega_std=[0.0, 0.0],
            gamma_mean=[1.0] * 5,
            gamma_std=[0.0] * 5,
            z_norm=1.0,
            z_std=0.0,
        )
        for i in range(tasks)
    ]
    for name, figure in figures.balance_figures(same).items():
        save_figure(figure, tmp_path / name)


def test_variables_that_are_off_have_no_figure():
    off = [BalanceRecord("a", 0, (1, 2), LAYERS, gamma_mean=[1.0] * 5, gamma_std=[0.1] * 5)]
    assert list(figures.balance_figures(off)) == ["gamma"]


def test_trend_is_the_mean_of_dots_of_similar_size():
    x = np.array([1.0, 1, 4, 4, 100])
    y = np.array([2.0, 4, 1, 1, 9])
    sizes, means = figures.trend(x, y)  # two bins: up to 10, and above, which holds one dot
    assert sizes == pytest.approx([2.0])
    assert means == pytest.approx([2.0])
    assert figures.trend(np.empty(0), np.empty(0)) == ([], [])


def test_dollar_signs_in_a_name_are_no_formula(tmp_path):
    odd = "$x_{$"
    (_, svg) = save_figure(figures.z_figure(records((odd, "digits"))), tmp_path / "z")
    assert odd in svg.read_text()


def test_figures_are_saved_without_a_training_figure_if_no_run_has_a_log(tmp_path):
    paths = figures.save_inspection_figures([], records(tasks=2), tmp_path)
    assert sorted({path.stem for path in paths}) == ["gamma", "omega", "z"]
