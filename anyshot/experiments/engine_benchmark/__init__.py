"""``anyshot bench``: the engine beside autograd, ``higher`` and ``torchopt``, in one interleaved run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, standard_cases
from anyshot.experiments.engine_benchmark.contestants import present
from anyshot.experiments.engine_benchmark.convolution_cost import required, shares
from anyshot.experiments.engine_benchmark.measure import Mode, Timing, best_mode, peak_memory, race
from anyshot.experiments.engine_benchmark.single_task import CASES as ALONE
from anyshot.experiments.engine_benchmark.single_task import alone

__all__ = ["bench", "machine"]

ROUNDS = 5
BUDGET, BUDGET_ALL = (
    40.0,
    240.0,
)  #: seconds for the first case, a third for others; after these no further case begins


def bench(
    quick: bool = False, advance: Callable[..., None] = lambda n=1, note="": None
) -> dict[str, Any]:
    """All measurements, ready for JSON. ``advance(n, note)`` hears of each round."""
    names, missing = present()
    began, left_out = time.perf_counter(), list(missing)
    results: dict[str, Any] = {}
    modes: dict[tuple[Any, ...], Mode] = {}  # by contestant, and by what may matter to it
    for case in standard_cases(quick):
        if results and time.perf_counter() - began > BUDGET_ALL:
            left_out.append(f"{case.name} was left out: {BUDGET_ALL:.0f} seconds were over.")
            continue
        chosen = {}
        for name in [name for name in names if name in (case.contestants or names)]:
            key = (name, case.size, case.order == 2, case.channels, case.method)
            chosen[name] = modes[key] = modes.get(key) or best_mode(name, case)
            advance(0, f"{case.name}: {name} runs best {chosen[name]}")
        timings = race(
            case, chosen, 2 if quick else ROUNDS, BUDGET if not results else BUDGET / 3, advance
        )
        if case.memory:
            peaks = map_tasks(partial(_peak_memory, case, chosen), list(chosen))
            for name, peak in zip(chosen, peaks, strict=True):
                timings[name].peak_mb = peak
                advance(0, f"{case.name}: {name} {peak:.0f} MB")
        results[case.name] = _case(case, timings)
    main = results[standard_cases(quick)[0].name]
    return {
        "machine": machine(),
        "seconds_in_all": time.perf_counter() - began,
        "cases": results,
        "speedup": main["speedup"],
        "memory_ratio": main["memory_ratio"],
        "alone": {case.name: alone(case, 1 if quick else 5) for case in ALONE},
        "convolutions": _convolutions(standard_cases(quick)[0], main),
        "left_out": left_out,
        "meaning": {
            "speedup": "median seconds of the peer / median seconds of the engine",
            "memory_ratio": "peak memory of the engine / peak memory of the peer",
        },
    }


def _peak_memory(case: Case, modes: dict[str, Mode], name: str) -> float:
    return peak_memory(name, case, modes[name])


def machine() -> dict[str, Any]:
    """Where the numbers come from."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": platform.processor() or platform.machine(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": cores(),
        "load": load,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "loops": find_spec("numba") is not None and os.environ.get("ANYSHOT_LOOPS", "1") != "0",
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
    }


def _case(case: Case, timings: dict[str, Timing]) -> dict[str, Any]:
    engine, peers = timings["engine"], {name: t for name, t in timings.items() if name != "engine"}
    return {
        **asdict(case),
        "contestants": {name: timing.summary() for name, timing in timings.items()},
        "speedup": {name: median(t.wall) / median(engine.wall) for name, t in peers.items()},
        "speedup_of_minima": {name: min(t.wall) / min(engine.wall) for name, t in peers.items()},
        "speedup_of_cpu": {name: min(t.cpu) / min(engine.cpu) for name, t in peers.items()},
        "memory_ratio": {
            name: engine.peak_mb / t.peak_mb
            for name, t in peers.items()
            if engine.peak_mb and t.peak_mb
        },
    }


def _convolutions(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """The account of the engine's time: convolutions against all, and against what direct ones need."""
    engine = result["contestants"]["engine"]
    floor = required(case)
    hands = min(engine["mode"]["workers"] if engine["mode"]["workers"] > 1 else cores(), cores())
    floor["seconds"] = floor["seconds_on_one_core"] / hands
    parts = shares(case)
    return {
        **floor,
        "share_of_engine": sum(parts.values()),
        "shares_of_passes": parts,
        "fraction_of_convolution_speed": floor["seconds"] / engine["minimum_seconds"],
    }
