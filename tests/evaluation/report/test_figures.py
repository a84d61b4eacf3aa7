from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from anyshot.evaluation.inspection import BalanceRecord
from anyshot.evaluation.report import figures
from anyshot.evaluation.report.confusion_matrix import confusion_figure


def records(images=("glyphs", "digits"), tasks=30, way=5, most=50) -> list[BalanceRecord]:
    rng = np.random.default_rng(0)
    out = []
    for place, name in enumerate(images):
        for index in range(tasks):
            shots = (
                rng.integers(1, most + 1, way)
                if index % 2
                else np.repeat(rng.integers(1, most + 1), way)
            )
            omega = shots**-0.5 / np.sum(shots**-0.5)
            gamma = [1.0 + 0.1 * place] * 4 + [9 - math.log(shots.sum())]
            out.append(
                BalanceRecord(
                    name, index, tuple(shots.tolist()), omega.tolist(), (omega / 5).tolist(), gamma, [0.1] * 5,
                    float(3 + place + rng.normal(0, 0.3)), 0.2,
                )
            )  # fmt: skip
    return out


def log(iterations: int, penalty: float = 0.1):
    for i in range(1, iterations + 1):
        yield {
            "kind": "iteration",
            "iteration": i,
            "loss": 1 / i,
            "penalty": penalty,
            "kl": 5.0,
            "accuracy": 1 - 1 / i,
        }
        if i % 10 == 0:
            yield {
                "kind": "validation",
                "iteration": i,
                "selection": 1.2,
                "glyphs": 0.7,
                "digits": 0.5,
            }
    yield {"kind": "warm", "epoch": 1, "loss": 2.0, "accuracy": 0.2}


def shown_texts(figure) -> list[Text]:
    """Titles, labels, legends and the tick labels within the axes' limits."""
    texts = figure.findobj(Text)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                texts = [text for text in texts if text not in (tick.label1, tick.label2)]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def assert_no_text_overlaps(figure) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in shown_texts(figure)
    ]
    assert len(boxes) > 5
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        # a pixel of touching edges is not an overlap
        apart = a.x1 - 1 < b.x0 or b.x1 - 1 < a.x0 or a.y1 - 1 < b.y0 or b.y1 - 1 < a.y0
        assert apart, f"{one!r} and {two!r} overlap"
    for text, box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, f"{text!r} is cut off"  # noqa: PT018


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


def test_omega_is_drawn_against_class_size_with_the_even_share():
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


def words(figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))


def test_the_panels_of_gamma_share_one_scale_that_does_not_exaggerate():
    figure = figures.gamma_figure(records())
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    low, high = figure.axes[0].get_ylim()
    assert figure.axes[0].get_yscale() == "log"
    assert low <= 0.5
    assert high > max(max(r.gamma_mean) for r in records())
    nearly_one = [replace(r, gamma_mean=[1.01] * 5) for r in records()]
    assert figures.gamma_figure(nearly_one).axes[0].get_ylim() == (0.5, 2)


def test_what_dots_bars_and_lines_mean_is_written_in_the_picture():
    drawn = figures.balance_figures(records())
    for name in ("omega", "gamma"):
        assert "Thin bars: one posterior deviation either way. Lines: means over" in words(
            drawn[name]
        )
    assert "Hollow dots: tasks with classes of one size." in words(drawn["omega"])
    uneven = [r for r in records() if len(set(r.shots)) > 1]
    assert "Hollow" not in words(figures.omega_figure(uneven))
    assert "Thick bar: middle half. Line: median." in words(drawn["z"])
    assert "Strong: the running mean" in words(figures.training_figure({"taml": log(90)}))
    assert "Strong" not in words(
        figures.training_figure({"taml": log(20)})
    )  # too few iterations for a mean


def test_axes_start_where_they_do_not_exaggerate():
    assert figures.z_figure(records()).axes[0].get_ylim()[0] == 0
    figure = figures.training_figure({"taml": log(100)})
    assert [axes.get_ylim()[0] for axes in figure.axes] == [0, 0, 0, 0]
    assert [axes.get_ylim()[1] for axes in figure.axes[2:]] == [1, 1]


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
        BalanceRecord("a", i, (1, i + 2), [0.1, 0.9], [0.5, 0.5], [0.1] * 5, [3.0] * 5, 1.0, 0.1)
        for i in range(9)
    ]
    for figure in (figures.omega_figure(wild), figures.gamma_figure(wild)):
        for axes in figure.axes:
            lows = [
                segment[:, 1].min() for bars in axes.collections for segment in bars.get_segments()
            ]
            assert min(lows) >= 0


def test_the_bar_of_z_spans_the_middle_half_and_its_line_is_the_median():
    some = records(("glyphs",))
    (axes,) = figures.z_figure(some).axes
    low, middle, high = statistics.quantiles([r.z_norm for r in some], n=4, method="inclusive")
    assert list(axes.lines[-2].get_ydata()) == pytest.approx([low, high])
    assert list(axes.lines[-1].get_ydata()) == pytest.approx([middle, middle])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["glyphs"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_one_task_and_equal_sizes_can_be_drawn(tasks, tmp_path):
    same = [
        BalanceRecord("a", i, (5, 5), [0.5, 0.5], [0.0, 0.0], [1.0] * 5, [0.0] * 5, 1.0, 0.0)
        for i in range(tasks)
    ]
    for name, figure in figures.balance_figures(same).items():
        figures.save_figure(figure, tmp_path / name)


def test_variables_that_are_off_have_no_figure():
    off = [BalanceRecord("a", 0, (1, 2), None, None, [1.0] * 5, [0.1] * 5, None, None)]
    assert list(figures.balance_figures(off)) == ["gamma"]


def test_training_curves_of_several_runs_share_panels_and_leave_out_a_penalty_of_zero():
    figure = figures.training_figure({"taml": log(100), "maml": log(100, penalty=0.0)})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["query loss", r"KL$\,/\,(N+M)$", "training accuracy", "validation accuracy"]
    assert len(figure.axes[0].lines) == 4  # two runs, each faint and smoothed
    assert len(figure.axes[1].lines) == 2  # the run with a penalty alone
    assert len(figure.axes[3].lines) == 4  # two runs, two image sets
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "taml",
        "maml",
        "glyphs",
        "digits",
    ]
    assert_no_text_overlaps(figure)


def test_a_running_mean_is_the_mean_of_the_last_values():
    figure = figures.training_figure({"taml": log(90)})
    _, smooth = figure.axes[0].lines[1].get_data()
    losses = 1 / np.arange(1, 91)
    assert smooth[0] == pytest.approx(losses[0])
    assert smooth[-1] == pytest.approx(losses[-3:].mean())


def test_a_single_validation_has_distinct_ticks():
    records = [
        {"kind": "validation", "iteration": 10, "selection": 0.5, "a": accuracy}
        for accuracy in (0.541, 0.553)
    ]
    figure = figures.training_figure({"taml": records})
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        texts = [label.get_text() for label in labels]
        assert len(texts) == len(set(texts))
    assert_no_text_overlaps(figure)


def test_a_short_or_broken_log_can_be_drawn(tmp_path):
    lines = [{"kind": "iteration", "iteration": 1, "loss": None, "penalty": 0.0, "accuracy": 0.2}]
    for name, some in {"broken": lines, "empty": []}.items():
        figures.save_figure(figures.training_figure({"taml": some}), tmp_path / name)


def test_a_figure_is_saved_as_png_and_svg_and_the_same_figure_gives_the_same_bytes(tmp_path):
    paths = figures.save_figure(figures.omega_figure(records()), tmp_path / "deep" / "omega")
    again = figures.save_figure(figures.omega_figure(records()), tmp_path / "again")
    assert [path.name for path in paths] == ["omega.png", "omega.svg"]
    with Image.open(paths[0]) as image:
        assert image.width > 800
    assert "even share" in paths[1].read_text()  # text stays text
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_a_name_is_never_a_formula(tmp_path):
    odd = "$x_{$"
    (_, svg) = figures.save_figure(figures.z_figure(records((odd, "digits"))), tmp_path / "z")
    assert odd in svg.read_text()
    (_, svg) = figures.save_figure(
        figures.training_figure({odd: log(20), "b": log(20)}), tmp_path / "training"
    )
    assert odd in svg.read_text()
    confusion_figure([odd, "$"], np.eye(2, dtype=np.int64), tmp_path / "confusion.svg")
    assert (tmp_path / "confusion.svg").stat().st_size > 1000
