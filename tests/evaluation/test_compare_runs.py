from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import make_imageset, make_method

from anyshot.core.errors import AnyshotError, RunError, SettingsError
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.data.tasks import TaskStream
from anyshot.evaluation import compare_runs
from anyshot.evaluation.compare_runs import (
    MEAN,
    ResultRow,
    RunOnSet,
    add_differences,
    check_poolable,
    estimate_seconds,
    evaluate_runs,
    plan_runs,
    pool_rows,
    size_warnings,
    unpaired_reasons,
)
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Metrics, TaskResult, paired_difference, pool_seeds

TASK = TaskSettings(way=2, shots="fixed:2", query=2)


def settings(method: str = "maml", seed: int = 0) -> Settings:
    return Settings(
        images=("tiny",),
        task=TASK,
        method=MethodSettings(name=method),
        train=TrainSettings(seed=seed),
    )


def a_run(folder: str, own: Settings | None = None, imageset=None) -> SimpleNamespace:
    """A run without files."""
    return SimpleNamespace(
        folder=Path(folder),
        settings=own or settings(),
        resolve_settings=lambda: own or settings(),
        load_method=lambda device: make_method("maml", alpha=0.1),
        imageset=lambda name: imageset or make_imageset(name=name),
    )


def a_row(
    run: str,
    right: list[int],
    images: str = "tiny",
    seed: int = 0,
    method: str = "maml",
    classes=(),
) -> ResultRow:
    metrics = Metrics()
    for index, hit in enumerate(right):
        metrics.update(TaskResult(index, [[0.8, 0.2] if hit else [0.2, 0.8]], [0], [1, 1], classes))
    return ResultRow(run, images, (settings(method, seed),), metrics.compute())


def test_every_run_is_tested_on_every_image_set():
    trials = plan_runs([a_run("x/one"), a_run("x/two")], ["tiny", "other"])
    assert [(trial.name, trial.images) for trial in trials] == [
        ("one", "tiny"),
        ("one", "other"),
        ("two", "tiny"),
        ("two", "other"),
    ]
    assert [trial.images for trial in plan_runs([a_run("x/one")])] == ["tiny"]
    (other,) = plan_runs([a_run("x/one")], split="validation", seed=3)
    assert (other.stream.split, other.stream.seed) == ("validation", 3)
    assert [trial.name for trial in plan_runs([a_run("x/taml"), a_run("y/taml")])] == [
        "x/taml",
        "y/taml",
    ]


def test_runs_that_cannot_be_compared_are_refused():
    other = Settings(images=("tiny",), task=TaskSettings(way=3))
    with pytest.raises(SettingsError, match=r"2-way fixed:2.*3-way any-shot:1-50"):
        plan_runs([a_run("one"), a_run("two", other)])
    with pytest.raises(SettingsError, match="one"):
        plan_runs([a_run("one"), a_run("./one")])
    with pytest.raises(AnyshotError, match=r"4.*5"):
        plan_runs([a_run("one", Settings(images=("tiny",)))])


def test_the_method_is_loaded_on_the_chosen_device():
    devices = []
    run = a_run("one")
    run.load_method = devices.append
    plan_runs([run])
    plan_runs([run], device="cuda")
    assert devices == ["cpu", "cuda"]


def test_workers_and_metrics_reach_the_evaluation(monkeypatch):
    seen = []

    def evaluate(method, stream, tasks, **options):
        seen.append((tasks, options["workers"], options["metrics"]))

    monkeypatch.setattr(compare_runs, "evaluate", evaluate)
    evaluate_runs(plan_runs([a_run("one")]), 7, workers=3, metrics=("brier",))
    assert seen == [(7, 3, ("brier",))]


def test_labels_name_run_method_seeds_and_images():
    row = a_row("x", [1], "digits", seed=4, method="protonet")
    assert row.labels == {"run": "x", "method": "protonet", "seed": "4", "images": "digits"}


def test_a_row_is_the_evaluation_of_its_trial(capsys):
    trials = plan_runs([a_run("one")], ["tiny", "other"])
    rows = evaluate_runs(trials, 3, workers=1)
    assert [(row.run, row.images, row.labels["seed"]) for row in rows] == [
        ("one", "tiny", "0"),
        ("one", "other", "0"),
    ]
    expected = evaluate(trials[0].method, TaskStream(make_imageset(), "test", TASK), 3)
    assert rows[0].summary.scores == expected.scores
    assert "Testing one on other: 3/3" in capsys.readouterr().err


def test_a_size_warning_is_given_once_for_all_runs():
    greedy = Settings(images=("tiny",), task=TaskSettings(way=2, shots="fixed:50"))
    assert len(size_warnings(plan_runs([a_run("one", greedy), a_run("two", greedy)]))) == 1


def test_the_time_of_a_test_is_estimated_from_each_run(monkeypatch, capsys):
    times = iter([0.5, 2.0])
    workers_seen = []

    def measure(method, stream, workers):
        workers_seen.append(workers)
        return next(times)

    monkeypatch.setattr(compare_runs, "seconds_per_task", measure)
    trials = plan_runs([a_run("one"), a_run("two")], ["tiny", "other"])
    assert estimate_seconds(trials, tasks=100, workers=3) == 200 * 0.5 + 200 * 2.0
    assert workers_seen == [3, 3]
    assert "2/2" in capsys.readouterr().err


def test_later_runs_are_compared_with_the_first_on_each_image_set():
    rows = [
        a_row(run, right, images)
        for images in ("a", "b")
        for run, right in (("x", [0, 1, 1]), ("y", [1, 1, 1]))
    ]
    actual = add_differences(rows)
    assert [(row.run, row.images) for row in actual] == [
        (run, i) for run in ("x", "y") for i in ("a", "b", MEAN)
    ]
    assert [row.paired is not None for row in actual] == [False, False, False, True, True, False]
    assert actual[3].paired == paired_difference(rows[0].summary, rows[1].summary)
    assert actual[3].paired_to == "x"
    assert actual[5].summary.accuracy == 1
    assert actual[5].labels["images"] == "mean"
    assert unpaired_reasons(actual) == []


def test_runs_on_different_tasks_have_no_difference():
    actual = add_differences(
        [a_row("x", [1, 0]), a_row("y", [1, 0], classes="ab"), a_row("y", [1, 1], "elsewhere")]
    )
    assert [row.paired for row in actual] == [None] * 4
    (sentence,) = unpaired_reasons(actual)
    assert "y and x were tested on different tasks of tiny" in sentence


def test_seeds_are_pooled_for_each_image_set():
    seeds = [
        a_row(f"maml-{seed}", [seed, 1, 1], images, seed)
        for seed in (0, 1)
        for images in ("a", "b")
    ]
    rows = pool_rows([*seeds, a_row("taml", [1, 1, 1], "a", method="taml")])
    assert [(row.run, row.images, row.labels["seed"], row.summary.runs) for row in rows] == [
        ("maml-0 +1", "a", "0 1", 2),
        ("maml-0 +1", "b", "0 1", 2),
        ("taml", "a", "0", 1),
    ]
    assert rows[0].summary == pool_seeds([seeds[0].summary, seeds[2].summary])
    assert add_differences(rows)[-1].paired == paired_difference(rows[0].summary, rows[2].summary)


def trial(name: str, own: Settings, imageset=None) -> RunOnSet:
    return RunOnSet(
        name, own, make_method("maml"), TaskStream(imageset or make_imageset(), "test", TASK)
    )


def test_runs_that_cannot_be_pooled_are_refused():
    check_poolable(
        [trial("a", settings(seed=0)), trial("b", settings(seed=1)), trial("c", settings("taml"))]
    )
    pretrained = replace(settings(), pretrain=PretrainSettings())
    check_poolable([trial("a", pretrained), trial("b", pretrained.with_seed(1))])
    with pytest.raises(RunError, match="a, b"):
        check_poolable([trial("a", settings()), trial("b", settings("taml", seed=1))])
    with pytest.raises(RunError, match=r"a, b .* 0, 0"):
        check_poolable([trial("a", settings()), trial("b", settings())])
    with pytest.raises(RunError, match=r"a, b .* tiny"):
        check_poolable(
            [trial("a", settings()), trial("b", settings(seed=1), make_imageset(classes=15))]
        )


def test_a_row_says_which_part_of_a_published_set_was_tested():
    whole = make_imageset()
    part = replace(whole, notes={**whole.notes, "part": {"test": [120, 900]}})
    for images, expected in ((whole, ""), (part, "120 of 900")):
        (row,) = evaluate_runs(plan_runs([a_run("one", imageset=images)]), 1, workers=1)
        assert expected in row.part
        assert bool(row.part) == bool(expected)
        (pooled,) = pool_rows([row])
        assert pooled.part == row.part
