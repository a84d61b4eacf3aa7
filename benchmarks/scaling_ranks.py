"""What the two ranks of ``scaling`` do: the same iterations by one process and by both, in turn."""

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
from pretraining_speed import noise

from anyshot.core.files import write_json
from anyshot.core.parallel import ranks
from anyshot.core.parallel.collectives import ordered_all_reduce
from anyshot.core.parallel.scheduling import assign_round_robin, idle_share
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.runs.run import Run
from anyshot.training.meta_training import MetaTraining

CASES = {
    "32×32": (32, "any-shot:1-50", 9),
    "84×84": (84, "any-shot:1-10", 6),
}  #: side, shots, rounds
META_BATCH = 4
DRAWS = 500  #: of tasks, timed
REPEATS = 30


def measure(size: int, shots: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Seconds of an iteration in each mode, round by round; what tasks cost; how long the ranks waited."""
    train = TrainSettings(iterations=rounds + 1, meta_batch=META_BATCH)
    settings = Settings(task=TaskSettings(shots=shots), method=MethodSettings(steps=5), train=train)
    images = [noise(size, classes=10, images=80)]

    def training(name: str, workers: int) -> MetaTraining:
        return MetaTraining(
            Run.open_or_create(folder / f"{size}-{name}-{ranks.rank()}", settings, (size, size)),
            images,
            (),
            workers,
        )

    modes = {
        "1 × 1": training("one", 1),
        "2 × 1": training("two", 1),
        "1 × 2": training("threads", 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    cpu: dict[str, list[float]] = {name: [] for name in modes}
    group = ranks.current_group()
    assert group is not None
    group.cost.measurements.clear()
    waited: dict[str, list[float]] = {"by cost": [], "in turn": []}
    for done in range(rounds + 1):  # the first compiles
        for name, one in modes.items():
            dist.barrier()
            wall, used = time.perf_counter(), time.process_time()
            if name == "2 × 1":
                one.step()
            elif ranks.is_rank_zero():
                with ranks.local_only():
                    one.step()
            if done:
                seconds[name].append(time.perf_counter() - wall)
                cpu[name].append(_all(time.process_time() - used))
        share, last = ranks.utilisation()["idle"], list(group.cost.measurements)[-META_BATCH:]
        if done:
            waited["by cost"].append(share)
            loads = [
                sum(last[i][1] for i in tasks)
                for tasks in assign_round_robin(META_BATCH, group.size)
            ]
            waited["in turn"].append(idle_share(loads))
        else:
            group.cost.measurements.clear()
    return {
        "shots": shots,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "speedup": median(seconds["1 × 1"]) / median(seconds["2 × 1"]),
        "speedup_of_minima": min(seconds["1 × 1"]) / min(seconds["2 × 1"]),
        "speedup_of_threads": median(seconds["1 × 1"]) / median(seconds["1 × 2"]),
        "idle": {name: sum(found) / len(found) for name, found in waited.items()},
        "tasks": list(group.cost.measurements),
        **_parts(modes["2 × 1"], group),
    }


def _parts(training: MetaTraining, group: ranks.ProcessGroup) -> dict[str, Any]:
    """What :class:`scaling_model.Measured` needs."""
    start, slope = group.cost.coefficients()
    began = time.perf_counter()
    for i in range(DRAWS):
        training.stream.sample_indices(i)
    draw = (time.perf_counter() - began) / DRAWS
    like = list(training.method.parameters())
    numbers = sum(p.numel() for p in like)
    own = META_BATCH // group.size
    gradients = [[torch.ones_like(p) for p in like] for _ in range(own)]
    flat = torch.ones(numbers)
    dealt = assign_round_robin(META_BATCH, group.size)
    ordered = _timed(lambda: ordered_all_reduce(group, gradients, dealt, like))
    plain = _timed(lambda: dist.all_reduce(flat))
    apply = _timed(lambda: training.optimiser.step([torch.zeros_like(p) for p in like], 0))
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


def _timed(function: Callable[[], Any]) -> float:
    found = []
    for _ in range(REPEATS):
        dist.barrier()
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return median(found)


def _all(value: float) -> float:
    """Summed over the ranks."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total)


if __name__ == "__main__":
    with ranks.process_group(torch.device("cpu")), tempfile.TemporaryDirectory() as scratch:
        results = {name: measure(*case, Path(scratch)) for name, case in CASES.items()}
        if ranks.is_rank_zero():
            write_json(sys.argv[1], results)
