"""The two ranks of ``scaling``: the same iterations by one process and by both, in turn."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from pretraining_speed import noise_images
from scaling_model import assign_round_robin, idle_share

from anyshot.core.files import write_json
from anyshot.core.parallel import ranks
from anyshot.core.parallel.collectives import ordered_all_reduce
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.runs.run import Run
from anyshot.training.loop import TrainContext
from anyshot.training.meta_training import MetaTraining

CASES = {
    "32×32": (32, "any-shot:1-50", 9),
    "84×84": (84, "any-shot:1-10", 6),
}  #: side, shots, rounds
META_BATCH = 4
DRAWS = 500  #: of tasks, timed
REPEATS = 30


def measure(size: int, shots: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Seconds of an iteration in each mode and round, costs of tasks, and idle time of ranks."""
    train = TrainSettings(iterations=rounds + 1, meta_batch=META_BATCH)
    settings = Settings(task=TaskSettings(shots=shots), method=MethodSettings(steps=5), train=train)
    images = [noise_images(size, classes=10, images=80)]

    def make_training(name: str, workers: int) -> MetaTraining:
        return MetaTraining(
            Run.open_or_create(folder / f"{size}-{name}-{ranks.rank()}", settings, (size, size)),
            images,
            (),
            TrainContext(workers=workers),
        )

    modes = {
        "1 × 1": make_training("one", 1),
        "2 × 1": make_training("two", 1),
        "1 × 2": make_training("threads", 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    cpu: dict[str, list[float]] = {name: [] for name in modes}
    group = ranks.current_group()
    assert group is not None
    group.cost.measurements.clear()
    idle: dict[str, list[float]] = {"by cost": [], "in turn": []}
    for round_number in range(rounds + 1):  # the first one compiles
        for name, training in modes.items():
            dist.barrier()
            wall_start = time.perf_counter()
            cpu_start = time.process_time()
            if name == "2 × 1":
                training.step(ignore_progress)
            elif ranks.is_rank_zero():
                with ranks.local_only():
                    training.step(ignore_progress)
            if round_number:
                seconds[name].append(time.perf_counter() - wall_start)
                cpu[name].append(_sum_over_ranks(time.process_time() - cpu_start))
        share = ranks.utilisation()["idle"]
        last = list(group.cost.measurements)[-META_BATCH:]
        if round_number:
            idle["by cost"].append(share)
            loads = [
                sum(last[i][1] for i in tasks)
                for tasks in assign_round_robin(META_BATCH, group.size)
            ]
            idle["in turn"].append(idle_share(loads))
        else:
            group.cost.measurements.clear()
    return {
        "shots": shots,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "speedup": median(seconds["1 × 1"]) / median(seconds["2 × 1"]),
        "speedup_of_minima": min(seconds["1 × 1"]) / min(seconds["2 × 1"]),
        "speedup_of_threads": median(seconds["1 × 1"]) / median(seconds["1 × 2"]),
        "idle": {name: sum(shares) / len(shares) for name, shares in idle.items()},
        "tasks": list(group.cost.measurements),
        **_measure_parts(modes["2 × 1"], group),
    }


def ignore_progress(n: int = 1, note: str = "") -> None:
    """The progress bar that a step advances; there is none here."""


def _measure_parts(training: MetaTraining, group: ranks.ProcessGroup) -> dict[str, Any]:
    """The measurements of :class:`scaling_model.Measured`."""
    start, slope = group.cost.coefficients()
    started = time.perf_counter()
    for i in range(DRAWS):
        training.stream.sample_indices(i)
    draw = (time.perf_counter() - started) / DRAWS
    like = list(training.method.parameters())
    numbers = sum(p.numel() for p in like)
    own = META_BATCH // group.size
    gradients = [[torch.ones_like(p) for p in like] for _ in range(own)]
    flat = torch.ones(numbers)
    assigned = assign_round_robin(META_BATCH, group.size)
    ordered = _median_seconds(lambda: ordered_all_reduce(group, gradients, assigned, like))
    plain = _median_seconds(lambda: dist.all_reduce(flat))
    apply = _median_seconds(lambda: training.optimizer.step([torch.zeros_like(p) for p in like], 0))
    sent = group.sent // REPEATS
    group.sent = 0
    return {
        "gradient_bytes": numbers * flat.element_size(),
        "sent_bytes": sent,
        "ordered_sum_seconds": ordered,
        "all_reduce_seconds": plain,
        "model": {
            "start": start, "slope": slope, "draw": draw, "apply": apply, "byte": ordered / sent,
            "gradient": numbers * flat.element_size(),
        },
    }  # fmt: skip


def _median_seconds(function: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(REPEATS):
        dist.barrier()
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def _sum_over_ranks(value: float) -> float:
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total)


if __name__ == "__main__":
    with ranks.process_group(torch.device("cpu")), tempfile.TemporaryDirectory() as scratch:
        results = {name: measure(*case, Path(scratch)) for name, case in CASES.items()}
        if ranks.is_rank_zero():
            write_json(sys.argv[1], results)
