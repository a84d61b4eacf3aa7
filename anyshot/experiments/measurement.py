"""Measurements of a trained run. Each is cached in the run's folder and never computed twice."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anyshot.core.files import read_json, to_plain, write_bytes
from anyshot.core.options import from_plain, non_default
from anyshot.core.settings import MethodSettings, Settings, TaskSettings
from anyshot.core.version import VERSION
from anyshot.data import ImageSet
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.inspection import inspect_stream
from anyshot.evaluation.metrics import Summary, TaskScore, summarise
from anyshot.experiments.z_shift import adaptation_distances, initial_shifts
from anyshot.methods import Method
from anyshot.runs.run import Run


@dataclass(frozen=True)
class Measurement:
    """What is measured, on which test tasks, with which settings of the method.

    The names of the fields are hashed into the names of cache files.
    """

    kind: str  #: one of KINDS
    images: str
    task: TaskSettings
    tasks: int
    method: MethodSettings  #: of the test; the learned parameters are the run's
    value: int = 0  #: the number of samples, for the kinds that need it
    seed: int = 0  #: of the tasks


OLD_KEYS = {"probe": "measurement", "sums": "checksums"}  #: of files of earlier versions
Values = dict[str, Any]  #: the numbers of one measurement, as JSON types


def measure_accuracy(
    method: Method, stream: TaskStream, measurement: Measurement, workers: int | None
) -> Values:
    """The score of every task, and the bins of the calibration error."""
    started = time.perf_counter()
    summary = evaluate(method, stream, measurement.tasks, workers=workers)
    return values_of(summary, time.perf_counter() - started)


def measure_balancing(
    method: Method, stream: TaskStream, measurement: Measurement, workers: int | None
) -> Values:
    """ω, γ and z of every task."""
    records = inspect_stream(method, stream, measurement.tasks)
    return {"records": [dataclasses.asdict(record) for record in records]}


def measure_starts(
    method: Method, stream: TaskStream, measurement: Measurement, workers: int | None
) -> Values:
    """θ∗E[z] − θ of every task."""
    return {"starts": initial_shifts(method, stream, measurement.tasks)}


def measure_distances(
    method: Method, stream: TaskStream, measurement: Measurement, workers: int | None
) -> Values:
    """The distance from E[θ_0] to the adapted parameters of every task."""
    samples = measurement.value
    return {"distances": adaptation_distances(method, stream, measurement.tasks, samples, workers)}


KINDS: dict[str, Callable[[Method, TaskStream, Measurement, int | None], Values]] = {
    "test": measure_accuracy,
    "balance": measure_balancing,
    "starts": measure_starts,
    "distances": measure_distances,
}


def run_measurement(
    folder: str | Path, measurement: Measurement, workers: int | None = None
) -> Values:
    """Measure the run in a folder, or read the cache if parameters and images are the same."""
    if (values := read_cached(folder, measurement)) is not None:
        return values
    run = Run(folder, trust_code=True)  # the experiment names the code and has trained the run
    images, _ = _open_inputs(run, measurement)
    run.settings = dataclasses.replace(run.settings, method=measurement.method)
    with torch.inference_mode(False):
        stream = TaskStream(images, "test", measurement.task, measurement.seed)
        values = KINDS[measurement.kind](run.load_method(), stream, measurement, workers)
    return write_cached(folder, measurement, values)


def write_cached(folder: str | Path, measurement: Measurement, values: Values) -> Values:
    """Keep the values of a measurement for :func:`read_cached`, and return them as JSON types."""
    _, checksums = _open_inputs(Run(folder, trust_code=True), measurement)
    values = to_plain(
        {"measurement": measurement, "checksums": checksums, "version": VERSION, **values}
    )
    write_bytes(cache_path(folder, measurement), json.dumps(values, allow_nan=False).encode())
    return values


def read_cached(folder: str | Path, measurement: Measurement) -> Values | None:
    """Read an earlier measurement; None if there is none for these parameters and images."""
    path = cache_path(folder, measurement)
    if not path.exists():
        return None
    values = read_json(path)
    for old, new in OLD_KEYS.items():
        values.setdefault(new, values.pop(old, None))
    _, checksums = _open_inputs(Run(folder), measurement)
    if values["checksums"] != checksums:
        return None
    if from_plain(Measurement, values["measurement"]) != measurement:
        return None
    return values


def cache_path(folder: str | Path, measurement: Measurement) -> Path:
    """The file in which a measurement is cached."""
    words = f"{measurement.kind} {Path(measurement.images).name} {measurement.task.shots}"
    name = re.sub(r"\W+", "-", words)
    return Path(folder) / "measured" / f"{name}-{digest(measurement)}.json"


def values_of(summary: Summary, seconds: float) -> Values:
    """The measurement of accuracy with this summary."""
    scores = [score.to_json() for score in summary.scores]
    return {"scores": scores, "bins": summary.bins, "seconds": seconds}


def summary_of(values: Values) -> Summary:
    """The summary of a measurement of accuracy."""
    scores = [TaskScore.from_json(score) for score in values["scores"]]
    return summarise(scores, values["bins"], values["seconds"])


def _open_inputs(run: Run, measurement: Measurement) -> tuple[ImageSet, dict[str, str]]:
    """Open the images, and compute checksums of the inputs that the measurement does not name."""
    images = run.imageset(measurement.images)
    parameters = hashlib.sha256(run.best_path.read_bytes()).hexdigest()
    return images, {"parameters": parameters, "images": images.checksum}


def digest(described: Settings | Measurement) -> str:
    """Ten hexadecimal digits that identify the values that differ from the defaults."""
    text = json.dumps(to_plain(non_default(described)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
