from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anyshot.core.registry import EXPERIMENTS
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.experiments import available_data
from anyshot.experiments import estimate as estimate_module
from anyshot.experiments.estimate import (
    TYPICAL,
    Speed,
    estimate,
    estimate_all,
    job_seconds,
    measurement_seconds,
    share_done,
    training_seconds,
)
from anyshot.experiments.job import Job
from anyshot.experiments.measurement import Measurement, cache_path
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER
from anyshot.training.presets import preset, pretraining_settings

SPEED = Speed(training=2.0, adaptation=3.0, image=0.001)
MEAN_TASK = TaskSettings(way=5, shots="any-shot:1-50")  # the paper's mean task


def settings(**train) -> Settings:
    sizes = {"iterations": 1000, "meta_batch": 4, "validate_every": 100, "validation_tasks": 30}
    return Settings(
        ("cifar-fs",),
        ("svhn",),
        task=MEAN_TASK,
        method=MethodSettings(steps=10, test_steps=5),
        train=TrainSettings(**{**sizes, **train}),
    )


def measured(kind: str, value: int = 0, **options) -> float:
    method = MethodSettings(test_steps=20, options=options)
    one = Measurement(kind, "cifar-fs", MEAN_TASK, 7, method, value)
    return measurement_seconds(one, SPEED)


def test_training_takes_its_tasks_and_those_of_its_validations():
    training = 1000 * 4 * 2.0 * (10 / 5)
    validation = 30 * 2 * 3.0 * (5 / 10)  # in and out of distribution
    assert training_seconds(settings(), SPEED) == pytest.approx(training + 10 * validation)
    for every in (0, 1000, 5000):
        found = training_seconds(settings(validate_every=every), SPEED)
        assert found == pytest.approx(training + validation)


def test_larger_tasks_and_images_take_longer():
    base = training_seconds(settings(), SPEED)
    wide = replace(settings(), task=TaskSettings(way=10, shots="fixed:51"))
    assert training_seconds(wide, SPEED) == pytest.approx(4 * base)
    large = replace(settings(), images=("cifar-fs", "miniimagenet"))
    assert training_seconds(large, SPEED) == pytest.approx((84 / 32) ** 2 * base)
    unknown = replace(settings(), images=("mine",))
    assert training_seconds(unknown, SPEED) == pytest.approx(base)


def test_pretraining_takes_its_images():
    pretraining = pretraining_settings(preset("cifar-fs-paper"))
    expected = pretraining.pretrain.epochs * 40_000 * 0.001
    assert training_seconds(pretraining, SPEED) == pytest.approx(expected)


def test_a_measurement_takes_its_adaptations():
    once = 7 * 3.0 * (20 / 10)
    assert measured("test", samples=6, prediction="mc") == pytest.approx(6 * once)
    assert measured("test", samples=6, prediction="naive") == pytest.approx(once)
    assert measured("test", samples=6, bayesian=False) == pytest.approx(once)
    assert measured("distances", 9) == pytest.approx(10 * once)
    assert measured("balance") == pytest.approx(once / 5)


def test_a_job_takes_its_training_and_its_measurements():
    ones = tuple(
        Measurement("test", "svhn", MEAN_TASK, tasks, MethodSettings("maml")) for tasks in (3, 4)
    )
    expected = training_seconds(settings(), SPEED) + 7 * 3.0
    assert job_seconds(Job("x", settings(), ones), SPEED) == pytest.approx(expected)


def test_the_share_done_weights_training_and_measurements_by_their_time(tmp_path):
    ones = tuple(
        Measurement("test", "svhn", MEAN_TASK, tasks, MethodSettings("maml"))
        for tasks in (1000, 3000)
    )
    job = Job(str(tmp_path), settings(iterations=4), ones)
    assert share_done(job) == 0
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind": "epoch"}\n{"kind": "iteration"}\n')
    training = training_seconds(job.settings, TYPICAL)
    whole = training + 4000 * TYPICAL.adaptation
    assert share_done(job) == pytest.approx(training / 4 / whole)
    log.write_text('{"kind": "iteration"}\n' * 8)  # more than planned
    cache = cache_path(tmp_path, ones[0])
    cache.parent.mkdir()
    cache.touch()
    assert share_done(job) == pytest.approx((training + 1000 * TYPICAL.adaptation) / whole)


def test_the_share_of_pretraining_counts_epochs(tmp_path):
    job = Job(str(tmp_path), pretraining_settings(preset("cifar-fs-paper")))
    epochs = job.settings.pretrain.epochs
    (tmp_path / "log.jsonl").write_text('{"kind": "epoch"}\n{"kind": "check"}\n')
    assert share_done(job) == pytest.approx(1 / epochs)


def test_an_estimate_is_the_sum_of_the_jobs_that_can_run(experiment, sets):
    found = estimate(experiment, SPEED)
    assert found.needs == dict.fromkeys(sets, True)
    jobs = make_plan(experiment, PAPER, Path()).jobs
    assert found.runs == len(jobs) == 6  # two trainings, three seeds
    assert found.paper == pytest.approx(sum(job_seconds(job, SPEED) for job in jobs))
    assert 0 < found.short < found.paper


def test_experiments_without_images_have_no_time(monkeypatch):
    monkeypatch.setattr(available_data, "is_available", lambda images: False)
    monkeypatch.setattr(estimate_module, "measure_speed", lambda: SPEED)
    some = {name: EXPERIMENTS[name] for name in ("initialisation", "bayesian")}
    monkeypatch.setattr(estimate_module, "EXPERIMENTS", some)
    found = estimate_all()
    assert [one.name for one in found] == list(some)
    assert {(one.short, one.paper) for one in found} == {(None, None)}


def test_the_first_task_is_not_timed(monkeypatch):
    clock = [0.0]

    def work(index):
        clock[0] += 100.0 if clock[0] == 0 else 3.0

    monkeypatch.setattr(estimate_module, "cores", lambda: 2)
    monkeypatch.setattr(estimate_module, "map_tasks", lambda work, tasks: list(map(work, tasks)))
    monkeypatch.setattr(estimate_module.time, "perf_counter", lambda: clock[0])
    assert estimate_module._seconds_per_task(work) == 3.0
