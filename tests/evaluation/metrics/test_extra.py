"""Metrics besides those that every test has: of anyshot's own and of anybody's."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from support import make_imageset, make_method

from anyshot.cli.main import main
from anyshot.core.errors import AnyshotError, CodeError
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Metrics, TaskResult, average_sets, pool_seeds
from anyshot.evaluation.metrics.extra import brier
from anyshot.evaluation.metrics.summary import confidence_half_width

OWN = """
def rare(p, labels, shots):
    return p[range(len(labels)), labels][shots[labels] == shots.min()].mean()
"""


def answers(seed: int, tasks: int = 5) -> Metrics:
    rng, metrics = np.random.default_rng(seed), Metrics({"brier": brier})
    for index in range(tasks):
        p = rng.dirichlet(np.ones(3), 6)
        metrics.update(TaskResult(index, p, np.arange(6) % 3, [1, 2, 3]))
    return metrics


def test_the_brier_score_is_the_squared_distance_from_the_truth():
    rng = np.random.default_rng(0)
    p, labels = rng.dirichlet(np.ones(4), 9), rng.integers(0, 4, 9)
    expected = np.mean([sum((p[n, c] - (c == labels[n])) ** 2 for c in range(4)) for n in range(9)])
    assert brier(p, labels, np.ones(4)) == pytest.approx(expected)


def test_summaries_averages_and_pools_have_the_mean_and_its_interval():
    one, two = (answers(seed).compute() for seed in (1, 2))
    values = [score.extra["brier"] for score in one.scores]
    assert one.extra["brier"] == pytest.approx(np.mean(values))
    assert one.extra_intervals["brier"] == pytest.approx(1.96 * np.std(values, ddof=1) / 5**0.5)
    means = [one.extra["brier"], two.extra["brier"]]
    assert average_sets([one, two]).extra["brier"] == pytest.approx(np.mean(means))
    assert average_sets([one, two]).extra_intervals["brier"] == pytest.approx(
        np.hypot(one.extra_intervals["brier"], two.extra_intervals["brier"]) / 2
    )
    both = np.mean([values, [score.extra["brier"] for score in two.scores]], axis=0)
    assert pool_seeds([one, two]).extra_intervals["brier"] == pytest.approx(
        confidence_half_width(both.tolist(), means)
    )


@pytest.mark.parametrize("value", [float("nan"), None, "0.5", [0.5]])
def test_a_metric_without_a_finite_number_is_an_error(value):
    metrics = Metrics({"odd": lambda p, labels, shots: value})
    with pytest.raises(CodeError, match="'odd'"):
        metrics.update(TaskResult(0, [[0.9, 0.1]], [0], [1, 1]))


def test_evaluate_takes_metrics_by_name_and_by_file(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    stream = TaskStream(
        make_imageset(), "test", TaskSettings(way=2, shots="class-imbalance:1-5", query=3)
    )
    summary = evaluate(
        make_method("protonet"), stream, 3, metrics=("brier", f"{tmp_path}/own.py:rare")
    )
    assert set(summary.extra) == {"brier", "rare"}
    assert 0 <= summary.extra["rare"] <= 1
    with pytest.raises(AnyshotError, match="'brir'"):
        evaluate(make_method("protonet"), stream, 1, metrics=("brir",))
    with pytest.raises(AnyshotError, match="'brier'"):
        evaluate(
            make_method("protonet"),
            stream,
            1,
            metrics=("brier", "anyshot.evaluation.metrics.extra:brier"),
        )


def test_the_command_prints_and_writes_extra_metrics(tmp_path, monkeypatch, capsys):
    make_imageset().save(tmp_path / "tiny")
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    chosen = {
        "way": 2,
        "shots": "any-shot:1-4",
        "query": 2,
        "steps": 1,
        "iterations": 1,
        "validation-tasks": 1,
    }
    options = [
        f"--{name}={value}" for name, value in {**chosen, "channels": 4, "method": "maml"}.items()
    ]
    outputs = ["--json", "out.json", "--csv", "out.csv", "--per-task", "tasks.csv"]
    for command in (
        ["train", "run", "--images", "tiny", "--no-tensorboard", *options],
        ["test", "run", "--tasks", "2", "--metrics", "brier,own.py:rare", *outputs],
    ):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert not end.value.code
    out = capsys.readouterr().out
    assert "brier" in out
    assert "rare" in out
    written = json.loads((tmp_path / "out.json").read_text())
    (row,) = written["results"]
    assert list(written["origin"]["metrics"]) == [f"{tmp_path.resolve()}/own.py:rare"]
    (line,), tasks = (
        list(csv.DictReader((tmp_path / f).read_text().splitlines()))
        for f in ("out.csv", "tasks.csv")
    )
    assert (
        float(line["rare"])
        == row["more"]["rare"]
        == pytest.approx(np.mean([float(t["rare"]) for t in tasks]))
    )
    assert float(line["rare_interval"]) == row["more_intervals"]["rare"]
    with pytest.raises(SystemExit) as end:
        main(["test", "run", "--metrics", "brir"])
    assert end.value.code == 2


def test_a_metric_with_other_arguments_is_refused_before_the_first_task():
    with pytest.raises(CodeError, match=r"'mine' .* \(probabilities, labels, shots\)"):
        Metrics({"mine": lambda p, labels: 0.0})
