"""How much work a unit is, how much of it is done, and how long it takes here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyshot.core.settings import MethodSettings, Settings, TaskSettings, parse_shots
from anyshot.data import CATALOGUE
from anyshot.experiments.job import Job
from anyshot.experiments.measurement import Measurement, cache_path

MEAN_SUPPORT = 5 * 25.5  #: images of the paper's mean task


@dataclass(frozen=True)
class Speed:
    """Seconds of a machine, all cores together, for 32×32 images and tasks of the paper's mean size."""

    training: float = 0.24  #: a training task of 5 steps
    adaptation: float = 0.15  #: a test task of 10 steps
    image: float = 0.00027  #: an image of a warm start


USUAL = Speed()


def seconds(unit: Job, speed: Speed = USUAL) -> float:
    """The unit from its start to its end."""
    return training_seconds(unit.settings, speed) + sum(
        probe_seconds(probe, speed) for probe in unit.probes
    )


def training_seconds(settings: Settings, speed: Speed) -> float:
    """Meta-training and its validations, or a warm start of some 40,000 images."""
    area = _area(settings.images)
    if settings.warm is not None:
        return settings.warm.epochs * 40_000 * speed.image * area
    t, size = settings.train, _size(settings.task) * area
    validations = max(1, t.iterations // (t.validate_every or t.iterations)) * t.validation_tasks
    validations *= bool(settings.images) + len(settings.ood)
    one = speed.adaptation * settings.method.test_steps / 10
    return size * (
        t.iterations * t.meta_batch * speed.training * settings.method.steps / 5 + validations * one
    )


def probe_seconds(probe: Measurement, speed: Speed) -> float:
    """A test, or a look."""
    adaptations = {"test": adapted(probe.method), "distances": 1 + probe.value}.get(probe.kind, 0.2)
    one = speed.adaptation * probe.method.test_steps / 10
    return probe.tasks * adaptations * one * _size(probe.task) * _area((probe.images,))


def adapted(method: MethodSettings) -> int:
    """How often a test adapts to each task."""
    return (
        method.samples
        if method.name == "taml" and method.bayesian and method.prediction == "mc"
        else 1
    )


def _size(task: TaskSettings) -> float:
    _, least, most = parse_shots(task.shots)
    return task.way * (least + most) / 2 / MEAN_SUPPORT


def _area(images: tuple[str, ...]) -> float:
    """How many times the pixels of a 32×32 image."""
    return max((CATALOGUE[name].side / 32) ** 2 if name in CATALOGUE else 1.0 for name in images)


def done(unit: Job) -> float:
    """The share of a unit that is behind it, by what its folder holds."""
    s, log = unit.settings, Path(unit.folder) / "log.jsonl"
    if not log.exists():
        return 0.0
    kind, last = ("iteration", s.train.iterations) if s.warm is None else ("epoch", s.warm.epochs)
    trained = min(1.0, log.read_bytes().count(f'"kind": "{kind}"'.encode()) / last)
    kept = [
        probe_seconds(probe, USUAL)
        for probe in unit.probes
        if cache_path(unit.folder, probe).exists()
    ]
    return (trained * training_seconds(s, USUAL) + sum(kept)) / seconds(unit)
