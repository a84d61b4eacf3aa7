from __future__ import annotations

import numpy as np
import pytest
from figure_texts import assert_no_text_overlaps, words
from matplotlib.backends.backend_agg import FigureCanvasAgg

from anyshot.evaluation.report import training_curves as figures
from anyshot.evaluation.report.style import save_figure


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
        save_figure(figures.training_figure({"taml": some}), tmp_path / name)


def test_a_note_explains_the_running_mean_of_long_logs_only():
    assert "running mean" in words(figures.training_figure({"taml": log(90)}))
    assert "running mean" not in words(figures.training_figure({"taml": log(20)}))


def test_losses_start_at_zero_and_accuracies_span_zero_to_one():
    figure = figures.training_figure({"taml": log(100)})
    assert [axes.get_ylim()[0] for axes in figure.axes] == [0, 0, 0, 0]
    assert [axes.get_ylim()[1] for axes in figure.axes[2:]] == [1, 1]


def test_dollar_signs_in_a_name_are_no_formula(tmp_path):
    odd = "$x_{$"
    figure = figures.training_figure({odd: log(20), "b": log(20)})
    (_, svg) = save_figure(figure, tmp_path / "training")
    assert odd in svg.read_text()


class RunWithLog:
    def __init__(self, folder, records):
        self.folder = folder
        self._records = records

    def records(self):
        return iter(self._records)


def test_runs_without_learning_curves_are_left_out(tmp_path):
    runs = [
        RunWithLog(tmp_path / "bundled", []),
        RunWithLog(tmp_path / "pretrained", [{"kind": "warm", "epoch": 1, "loss": 2.0}]),
        RunWithLog(tmp_path / "taml", list(log(3))),
    ]
    assert figures.load_logs(runs) == {"taml": list(log(3))}
