from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from anyshot import MethodSettings, Settings, TrainSettings
from anyshot.core.settings import TaskSettings
from anyshot.experiments import caption
from anyshot.experiments.plan import make_plan


def plan_with(shots: str, *counts: int):
    """A plan with one test of each number of tasks."""
    task = TaskSettings(shots=shots)
    jobs = [SimpleNamespace(measurements=[SimpleNamespace(task=task, tasks=n)]) for n in counts]
    return SimpleNamespace(tests={("TAML", index): (job,) for index, job in enumerate(jobs)})


@pytest.mark.parametrize(
    ("shots", "mean", "expected"),
    [
        ("fixed:50", 19.6, ["svhn: 20 images a class on average, because not every class has 50."]),
        ("fixed:50", 50.0, []),
        ("fixed:50", None, []),
        ("any-shot:1-50", 19.6, []),
    ],
)
def test_classes_with_fewer_images_than_shots_are_mentioned(shots, mean, expected):
    summary = None if mean is None else SimpleNamespace(support_mean=mean)
    comparison = SimpleNamespace(
        models=("TAML",), columns=("svhn",), cells={("TAML", 0): SimpleNamespace(summary=summary)}
    )
    assert caption._small_tasks(plan_with(shots, 3), comparison) == expected


def test_numbers_of_tasks_are_a_range():
    assert caption._task_counts(plan_with("fixed:5", 3000, 3000)) == "3,000"
    assert caption._task_counts(plan_with("fixed:5", 300, 150, 37)) == "37 to 300"


def test_one_of_a_thing_is_singular():
    assert [caption._count(number, "seed") for number in (1, 2)] == ["1 seed", "2 seeds"]


@pytest.mark.parametrize(("tasks", "seeds"), [(3000, 3), (3000, 2), (30, 3)])
def test_only_sizes_that_differ_from_the_experiments_are_listed(tasks, seeds):
    plan = plan_with("fixed:5", 5000, tasks)
    plan.experiment = SimpleNamespace(seeds=3, tasks=3000)
    plan.scale = SimpleNamespace(seeds_of=lambda experiment: seeds)
    expected = ["2 seeds, not 3"] if seeds == 2 else []
    expected += ["30 to 5,000 test tasks, not 3,000"] if tasks == 30 else []
    assert caption._size_differences(plan) == expected


@pytest.mark.parametrize(
    ("method", "options", "iterations", "expected"),
    [
        ("taml", {}, 200, True),
        ("taml", {}, 50_000, False),
        ("taml", {"start": "he"}, 200, False),
        ("taml", {"encoder": "normalized"}, 200, False),
        ("meta-sgd", {}, 200, False),
    ],
)
def test_the_caption_warns_of_an_encoder_that_hardly_moves(method, options, iterations, expected):
    settings = Settings(
        method=MethodSettings(name=method).with_values(options),
        train=TrainSettings(iterations=iterations),
    )
    sentences = caption._encoder_sentences(
        SimpleNamespace(jobs=[SimpleNamespace(settings=settings)])
    )
    assert ["200 iterations" in sentence for sentence in sentences] == [True] * expected


@pytest.mark.parametrize(
    ("seeds", "runs", "over"), [(1, "1 seed", "tasks"), (2, "2 seeds", "tasks and seeds")]
)
def test_the_caption_says_what_was_trained_and_tested(experiment, tiny_scale, seeds, runs, over):
    plan = make_plan(experiment, replace(tiny_scale, seeds=seeds), Path("nowhere"))
    first, second = caption._test_sentences(plan)
    assert first.startswith(
        f"3-way tasks, 3 query images a class; 3 test tasks and {runs} of each model. "
        f"Accuracy in % with 95 % intervals over {over}. Bold"
    )
    assert second == "Trained on tiny: tiny, other, fixed:2."
    figures_only = replace(experiment.blocks[0], columns=())
    longer = replace(experiment, blocks=(*experiment.blocks, figures_only))
    assert caption._test_sentences(replace(plan, experiment=longer)) == [first, second]
    assert caption._test_sentences(replace(plan, tests={})) == []


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ({}, None),
        ({"a": 20}, " (20 epochs)"),
        ({"b": 20, "a": 5}, " (5 or 20 epochs)"),
        ({"glyphs": None}, " (weights glyphs)"),
        ({"a": None}, ""),
    ],
)
def test_the_caption_says_where_models_start_from(starts, words, monkeypatch):
    class FakeRun:
        def __init__(self, name):
            self.folder = caption.pretrained.HOME / name

        @staticmethod
        def find_started(folder):
            epochs = starts[folder]
            pretrain = None if epochs is None else SimpleNamespace(epochs=epochs)
            return SimpleNamespace(settings=SimpleNamespace(pretrain=pretrain))

    monkeypatch.setattr(caption, "Run", FakeRun)
    jobs = [
        SimpleNamespace(settings=Settings(train=TrainSettings(body_from=start)))
        for start in (*starts, None)
    ]
    sentence = f"all models start from one pre-trained body{words}, not from scratch"
    found = caption._start_differences(SimpleNamespace(jobs=jobs))
    assert found == ([] if words is None else [sentence])
