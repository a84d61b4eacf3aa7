"""What each experiment needs, whether that is ready, and how long it takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshot.core.errors import DataError
from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.core.progress import progress
from anyshot.core.registry import EXPERIMENTS
from anyshot.core.settings import MethodSettings, Settings, TaskSettings
from anyshot.core.task_settings import parse_shots
from anyshot.data import CATALOGUE, ImageSet
from anyshot.data.tasks import TaskStream
from anyshot.experiments.available_data import all_sets, is_available, keep_available
from anyshot.experiments.experiment import Experiment
from anyshot.experiments.job import Job
from anyshot.experiments.measurement import Measurement, cache_path
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER, SHORT, Scale
from anyshot.methods import create_method
from anyshot.training.meta_training import task_gradients

MEAN_SUPPORT = 5 * 25.5  #: support images of the paper's mean task
PRETRAINING_IMAGES = 40_000  #: of an epoch, roughly


@dataclass(frozen=True)
class Speed:
    """Seconds on all cores together, for 32×32 images and tasks of the paper's mean size."""

    training: float = 0.24  #: a training task of 5 steps
    adaptation: float = 0.15  #: a test task of 10 steps
    image: float = 0.00027  #: an image of pre-training


TYPICAL = Speed()


@dataclass(frozen=True)
class Estimate:
    """A row of ``anyshot reproduce list``."""

    name: str
    title: str
    needs: dict[str, bool]  #: image sets, and whether they are ready
    runs: int  #: at the scale ``paper``
    short: float | None  #: seconds of the part that can run here; None if nothing can
    paper: float | None  #: as ``short``, at the scale ``paper``


def estimate_all() -> list[Estimate]:
    """Estimate all experiments of the registry."""
    speed = measure_speed()
    return [estimate(EXPERIMENTS[name], speed) for name in EXPERIMENTS]


def estimate(experiment: Experiment, speed: Speed) -> Estimate:
    """Estimate one experiment on a machine of this speed."""

    def seconds(scale: Scale) -> float | None:
        try:
            ready, _ = keep_available(experiment)
        except DataError:
            return None
        return sum(job_seconds(job, speed) for job in make_plan(ready, scale, Path()).jobs)

    runs = len(make_plan(experiment, PAPER, Path()).jobs)
    needs = {name: is_available(name) for name in all_sets(experiment)}
    short = seconds(SHORT.for_experiment(experiment))
    return Estimate(experiment.name, experiment.title, needs, runs, short, seconds(PAPER))


def measure_speed() -> Speed:
    """Time a few tasks of noise images on this machine."""
    rng = np.random.default_rng(0)
    classes = {f"{c}": rng.integers(0, 255, (41, 32, 32, 3), dtype=np.uint8) for c in range(5)}
    images = ImageSet.from_arrays("noise", classes, {"train": list(classes)})
    stream = TaskStream(images, "train", TaskSettings(shots="fixed:26"))
    method = create_method(MethodSettings(options={"prediction": "naive"}), (32, 32))
    with progress("Timing tasks", 2) as advance:
        training = _seconds_per_task(lambda index: task_gradients(method, stream.task(index)))
        advance()
        adaptation = _seconds_per_task(lambda index: method.predict(stream.task(index)))
        advance()
    # An image of pre-training takes about a 900th of a training task.
    return Speed(training, adaptation, training / 900)


def _seconds_per_task(work: Callable[[int], object]) -> float:
    """Seconds a task when all cores are busy; the first task, which compiles, is not timed."""
    work(0)
    tasks = range(2 * cores())
    started = time.perf_counter()
    map_tasks(work, tasks)
    return (time.perf_counter() - started) / len(tasks)


# ---------- the cost of a job
def job_seconds(job: Job, speed: Speed = TYPICAL) -> float:
    """Seconds of the whole job."""
    measurements = sum(measurement_seconds(one, speed) for one in job.measurements)
    return training_seconds(job.settings, speed) + measurements


def training_seconds(settings: Settings, speed: Speed) -> float:
    """Seconds of meta-training with its validations, or of pre-training."""
    area = _relative_area(settings.images)
    if settings.pretrain is not None and settings.pretrains_only:
        return settings.pretrain.epochs * PRETRAINING_IMAGES * speed.image * area
    train = settings.train
    validations = max(1, train.iterations // (train.validate_every or train.iterations))
    validation_tasks = validations * train.validation_tasks
    validation_tasks *= bool(settings.images) + len(settings.ood)
    training = train.iterations * train.meta_batch * speed.training * settings.method.steps / 5
    testing = validation_tasks * speed.adaptation * settings.method.test_steps / 10
    return _relative_size(settings.task) * area * (training + testing)


def measurement_seconds(measurement: Measurement, speed: Speed) -> float:
    """Seconds of one measurement."""
    method = measurement.method
    adaptations = {"test": adaptations_per_task(method), "distances": 1 + measurement.value}
    each = adaptations.get(measurement.kind, 0.2) * speed.adaptation * method.test_steps / 10
    size = _relative_size(measurement.task) * _relative_area((measurement.images,))
    return measurement.tasks * each * size


def adaptations_per_task(method: MethodSettings) -> int:
    """How often a test adapts to each task."""
    options = method.all_options() if method.name == "taml" else {}
    samples = options.get("bayesian") and options["prediction"] == "mc"
    return options["samples"] if samples else 1


def share_done(job: Job) -> float:
    """The share of a job that is done, from the files in its folder."""
    log = Path(job.folder) / "log.jsonl"
    if not log.exists():
        return 0.0
    kind, last = "iteration", job.settings.train.iterations
    if job.settings.pretrain is not None and job.is_pretraining:
        kind, last = "epoch", job.settings.pretrain.epochs
    trained = min(1.0, log.read_bytes().count(f'"kind": "{kind}"'.encode()) / last)
    measured = sum(
        measurement_seconds(measurement, TYPICAL)
        for measurement in job.measurements
        if cache_path(job.folder, measurement).exists()
    )
    return (trained * training_seconds(job.settings, TYPICAL) + measured) / job_seconds(job)


def _relative_size(task: TaskSettings) -> float:
    """The support images of a mean task, relative to the paper's mean task."""
    _, least, most = parse_shots(task.shots)
    return task.way * (least + most) / 2 / MEAN_SUPPORT


def _relative_area(images: tuple[str, ...]) -> float:
    """The pixels of an image, relative to 32×32."""
    return max((CATALOGUE[name].side / 32) ** 2 if name in CATALOGUE else 1.0 for name in images)
