"""What each experiment needs, whether it is here, and how long it will take, from a few measured tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.core.progress import progress
from anyshot.core.registry import EXPERIMENTS
from anyshot.core.settings import MethodSettings, TaskSettings
from anyshot.data import ImageSet
from anyshot.data.tasks import TaskStream
from anyshot.experiments.available_data import is_available, learned, with_ready
from anyshot.experiments.cost import Speed, seconds
from anyshot.experiments.experiment import Experiment
from anyshot.experiments.plan import make_plan
from anyshot.experiments.scale import PAPER, SHORT, Scale
from anyshot.methods import create_method
from anyshot.training.meta_training import task_gradients


@dataclass(frozen=True)
class Estimate:
    """A line of the list."""

    name: str
    title: str
    needs: dict[str, bool]  #: image sets, and whether they are ready
    runs: int  #: at the paper's scale
    short: float | None  #: seconds of what can be done here; None where nothing can
    paper: float | None


def listing() -> list[Estimate]:
    """All experiments."""
    speed = measured_speed()
    return [estimate(EXPERIMENTS[name], speed) for name in EXPERIMENTS]


def estimate(experiment: Experiment, speed: Speed) -> Estimate:
    """One experiment, on a machine of such a speed."""
    sets = [name for block in experiment.blocks for name in learned(block)]
    looked_at = [picture.columns for block in experiment.blocks for picture in block.pictures]
    sets += [column.images for columns in (experiment.columns, *looked_at) for column in columns]
    units = make_plan(experiment, PAPER, Path()).units

    def takes(scale: Scale) -> float | None:
        try:
            here, _ = with_ready(experiment)
        except AnyshotError:
            return None
        return sum(seconds(unit, speed) for unit in make_plan(here, scale, Path()).units)

    needs = {name: is_available(name) for name in dict.fromkeys(sets)}
    return Estimate(
        experiment.name, experiment.title, needs, len(units), takes(SHORT), takes(PAPER)
    )


def measured_speed() -> Speed:
    """Of this machine, on invented images."""
    rng = np.random.default_rng(0)
    classes = {f"{c}": rng.integers(0, 255, (41, 32, 32, 3), dtype=np.uint8) for c in range(5)}
    images = ImageSet.from_arrays("noise", classes, {"train": list(classes)})
    stream = TaskStream(images, "train", TaskSettings(shots="fixed:26"))
    method = create_method(MethodSettings(prediction="naive"), (32, 32))
    with progress("Measuring how long a task takes", 2) as advance:
        training = _seconds_each(lambda index: task_gradients(method, stream.task(index)))
        advance()
        adaptation = _seconds_each(lambda index: method.predict(stream.task(index)))
        advance()
    return Speed(
        training, adaptation, training / 900
    )  # an image of a warm start: a 900th of a training task


def _seconds_each(work: Callable[[int], object]) -> float:
    """Per task when many are done on all cores; a first one loads and compiles."""
    work(0)
    few = range(2 * cores())
    started = time.perf_counter()
    map_tasks(work, few)
    return (time.perf_counter() - started) / len(few)
