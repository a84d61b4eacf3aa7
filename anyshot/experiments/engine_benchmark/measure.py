"""How it is measured: interleaved rounds, wall and CPU time, peak memory of a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, NetworkTask, make_tasks
from anyshot.experiments.engine_benchmark.contestants import CONTESTANTS, EngineTask
from anyshot.experiments.engine_benchmark.network_contestants import NETWORK_CONTESTANTS
from anyshot.inner_loop.functional import call_module, loss_gradient
from anyshot.models.network import Parameters

AnyTask = EngineTask | NetworkTask

FORMATS = {"channels-last": torch.channels_last, "channels-first": torch.contiguous_format}


@dataclass(frozen=True)
class Mode:
    """Memory format, and tasks at a time: several with one thread each, or one with all threads."""

    layout: str
    workers: int

    def __str__(self) -> str:
        threads = cores() if self.workers == 1 else 1
        return f"{self.layout}, {self.workers} × {threads} thread{'s' if threads > 1 else ''}"


@dataclass
class Timing:
    """Seconds of each round, the mode, and the loss as a check."""

    mode: Mode
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    loss: float = float("nan")
    peak_mb: float | None = None

    def summary(self) -> dict[str, object]:
        """Numbers for the JSON file."""
        return {
            "mode": asdict(self.mode),
            "median_seconds": median(self.wall),
            "minimum_seconds": min(self.wall),
            "cpu_seconds": min(self.cpu),
            "peak_memory_mb": self.peak_mb,
            "rounds": len(self.wall),
            "seconds": self.wall,
            "loss": self.loss,
        }


def run_iteration(
    name: str, tasks: Sequence[AnyTask], order: int, mode: Mode
) -> tuple[float, list[Tensor]]:
    """Mean loss and mean gradients of one meta-iteration (or of the adaptations of its tasks)."""

    def run_task(task: AnyTask) -> tuple[Tensor, list[Tensor]]:
        if isinstance(task, NetworkTask):
            return NETWORK_CONTESTANTS[name](task)
        return CONTESTANTS[name](task, order)

    if mode.workers > 1:
        results = map_tasks(run_task, tasks, mode.workers, size=len)
    else:
        results = [run_task(task) for task in tasks]
    gradients = [torch.stack(g).mean(0) for g in zip(*(g for _, g in results), strict=True)]
    return float(torch.stack([loss for loss, _ in results]).mean()), gradients


def find_best_mode(name: str, case: Case) -> Mode:
    """The fastest mode on small tasks; engine and methods choose the memory format themselves."""
    many = len(case.supports) > 1 and cores() > 1
    small = replace(
        case,
        supports=tuple(max(5, n if case.network else n // 5) for n in case.supports[:2]),
        steps=min(case.steps, 1 if case.network else 2),
    )
    tasks = make_tasks(small)
    layouts = ["channels-last"] if name == "engine" or case.method else list(FORMATS)
    modes = [
        Mode(layout, workers) for layout in layouts for workers in ([cores(), 1] if many else [1])
    ]
    laid = {
        layout: [task.with_memory_format(FORMATS[layout]) for task in tasks] for layout in layouts
    }
    seconds = dict.fromkeys(modes, float("inf"))
    for _ in range(3):  # the first warms up
        for mode in modes:
            start = time.perf_counter()
            run_iteration(name, laid[mode.layout], case.order, mode)
            seconds[mode] = min(seconds[mode], time.perf_counter() - start)
    return min(modes, key=seconds.__getitem__)


def time_interleaved(
    case: Case, modes: Mapping[str, Mode], rounds: int, budget: float, advance: Callable[..., None]
) -> dict[str, Timing]:
    """Time the contestants in turn, for ``rounds`` rounds or ``budget`` seconds."""
    tasks, timings = make_tasks(case), {name: Timing(mode) for name, mode in modes.items()}
    laid = {
        name: [task.with_memory_format(FORMATS[mode.layout]) for task in tasks]
        for name, mode in modes.items()
    }
    end = time.perf_counter() + budget
    for done in range(rounds):
        if done and time.perf_counter() > end:
            break
        for name, timing in timings.items():
            start, cpu = time.perf_counter(), time.process_time()
            timing.loss, _ = run_iteration(name, laid[name], case.order, timing.mode)
            timing.wall.append(time.perf_counter() - start)
            timing.cpu.append(time.process_time() - cpu)
            advance(1, f"{case.name}: {name} {timing.wall[-1]:.2f} s")
    return timings


def describe_machine() -> dict[str, Any]:
    """The machine and the software that the numbers come from."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": platform.processor() or platform.machine(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": cores(),
        "load": load,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "loops": find_spec("numba") is not None and os.environ.get("ANYSHOT_NUMBA", "1") != "0",
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
    }


# ---------------------------------------------------------------------- memory
def measure_peak_memory(name: str, case: Case, mode: Mode) -> float:
    """Peak MB that one iteration adds to a fresh process."""
    request = json.dumps({"name": name, "case": asdict(case), "mode": asdict(mode)})
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "anyshot.experiments.engine_benchmark.measure",
        request,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AnyshotError(f"Measuring the memory of {name} failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout.split()[-1])


def measure_added_memory(name: str, case: Case, mode: Mode) -> float:
    """Peak MB that one iteration adds to this (fresh) process, after a small warm-up task."""
    small = replace(case, supports=(5,) * mode.workers, steps=1)
    if case.network:  # freed memory of the warm-up would hide some of the query set's
        small = replace(small, channels=4)
        _load_kernels()
    run_iteration(
        name,
        [task.with_memory_format(FORMATS[mode.layout]) for task in make_tasks(small)],
        case.order,
        mode,
    )
    tasks = [task.with_memory_format(FORMATS[mode.layout]) for task in make_tasks(case)]
    before = _reset_peak()
    run_iteration(name, tasks, case.order, mode)
    return _peak_memory_mb() - before


def _load_kernels() -> None:
    """Load what :func:`anyshot.loss_gradient` needs for wide convolutions: Numba and its kernels.

    The network of the warm-up is too small for them.
    """
    convolution = nn.Conv2d(32, 32, 3, padding=1)
    images = torch.rand(16, 32, 8, 8)

    def loss(theta: Parameters, images: Tensor) -> Tensor:
        return call_module(convolution, theta, images).square().mean()

    loss_gradient(loss, dict(convolution.named_parameters()), images)


def _reset_peak() -> float:
    """Reset the peak (on Linux) and return it in MB; elsewhere it is the peak so far."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak_memory_mb()


def _peak_memory_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024
    import resource  # not on Windows

    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10  # bytes there, kB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main(request: str) -> None:
    """The process that :func:`measure_peak_memory` starts."""
    arguments = json.loads(request)
    fields: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in arguments["case"].items()
    }
    case = Case(**fields)
    print(measure_added_memory(arguments["name"], case, Mode(**arguments["mode"])))


if __name__ == "__main__":
    main(sys.argv[1])
