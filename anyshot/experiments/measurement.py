"""What is measured on a finished run, each kept in the run's folder, so that nothing is computed twice."""

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
from anyshot.experiments.z_shift import distances, starts
from anyshot.methods import Method
from anyshot.runs.run import Run


@dataclass(frozen=True)
class Measurement:
    """One measurement: what is asked of which tasks, and how the method answers."""

    kind: str  #: one of those in KINDS
    images: str
    task: TaskSettings
    tasks: int
    method: MethodSettings  #: of the tests; what was learned must be the run's
    value: int = 0  #: where the kind asks for one: the number of samples
    seed: int = 0  #: of the tasks


Value = dict[str, Any]


def test(method: Method, stream: TaskStream, probe: Measurement, workers: int | None) -> Value:
    """Every task's score, and the bins of the calibration error."""
    started = time.perf_counter()
    summary = evaluate(method, stream, probe.tasks, workers=workers)
    scores = [score.to_json() for score in summary.scores]
    return {"scores": scores, "bins": summary.bins, "seconds": time.perf_counter() - started}


def balance(method: Method, stream: TaskStream, probe: Measurement, workers: int | None) -> Value:
    """ω, γ and z of every task."""
    return {
        "records": [
            dataclasses.asdict(record) for record in inspect_stream(method, stream, probe.tasks)
        ]
    }


KINDS: dict[str, Callable[[Method, TaskStream, Measurement, int | None], Value]] = {
    "test": test,
    "balance": balance,
    "starts": lambda method, stream, probe, workers: {
        "starts": starts(method, stream, probe.tasks)
    },
    "distances": lambda method, stream, probe, workers: {
        "distances": distances(method, stream, probe.tasks, probe.value, workers)
    },
}


def run_measurement(folder: str | Path, probe: Measurement, workers: int | None = None) -> Value:
    """What the probe finds on the run in a folder: read, if it was found before with the same parameters and images."""
    if (found := cached(folder, probe)) is not None:
        return found
    run = Run(folder)
    images, sums = _seen(run, probe)
    run.settings = dataclasses.replace(run.settings, method=probe.method)
    with torch.inference_mode(False):
        stream = TaskStream(images, "test", probe.task, probe.seed)
        found = KINDS[probe.kind](run.load_method(), stream, probe, workers)
    value = to_plain({"probe": probe, "sums": sums, "version": VERSION, **found})
    write_bytes(cache_path(folder, probe), json.dumps(value, allow_nan=False).encode())
    return value


def cached(folder: str | Path, probe: Measurement) -> Value | None:
    """What the probe has found before, if anything."""
    path = cache_path(folder, probe)
    if not path.exists():
        return None
    value = read_json(path)
    _, sums = _seen(Run(folder), probe)
    return (
        value
        if value.get("sums") == sums and from_plain(Measurement, value["probe"]) == probe
        else None
    )


def cache_path(folder: str | Path, probe: Measurement) -> Path:
    """Where it is kept."""
    name = re.sub(r"\W+", "-", f"{probe.kind} {Path(probe.images).name} {probe.task.shots}")
    return Path(folder) / "measured" / f"{name}-{digest(probe)}.json"


def summary_of(value: Value) -> Summary:
    """The summary of what a test has found."""
    return summarise(
        [TaskScore.from_json(one) for one in value["scores"]], value["bins"], value["seconds"]
    )


def _seen(run: Run, probe: Measurement) -> tuple[ImageSet, dict[str, str]]:
    """The images, and the checksums of what the answer depends on besides the probe."""
    images = run.imageset(probe.images)
    return images, {
        "parameters": hashlib.sha256(run.best_path.read_bytes()).hexdigest(),
        "images": images.checksum,
    }


def digest(asked: Settings | Measurement) -> str:
    """A few letters that stand for what differs from the defaults."""
    return hashlib.sha256(
        json.dumps(to_plain(non_default(asked)), sort_keys=True).encode()
    ).hexdigest()[:10]
