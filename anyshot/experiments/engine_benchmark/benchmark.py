"""The benchmark of ``anyshot bench``: all cases and contestants in one interleaved run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.experiments.engine_benchmark.cases import Case, standard_cases
from anyshot.experiments.engine_benchmark.contestants import installed_contestants
from anyshot.experiments.engine_benchmark.convolution_cost import (
    time_required_convolutions,
    time_shares,
)
from anyshot.experiments.engine_benchmark.measure import (
    Mode,
    Timing,
    describe_machine,
    find_best_mode,
    measure_peak_memory,
    time_interleaved,
)
from anyshot.experiments.engine_benchmark.single_task import CASES as SINGLE_TASKS
from anyshot.experiments.engine_benchmark.single_task import time_single_task

ROUNDS = 5
BUDGET = 40.0  #: seconds for the first case; the others have a third of it
BUDGET_ALL = 240.0  #: seconds after which no further case is started


def run_benchmark(
    quick: bool = False, advance: Callable[..., None] = lambda n=1, note="": None
) -> dict[str, Any]:
    """All measurements, ready for JSON; ``advance(n, note)`` is called after each round."""
    names, missing = installed_contestants()
    began = time.perf_counter()
    left_out = list(missing)
    results: dict[str, Any] = {}
    modes: dict[tuple[Any, ...], Mode] = {}  # by contestant and kind of case
    for case in standard_cases(quick):
        if results and time.perf_counter() - began > BUDGET_ALL:
            left_out.append(
                f"{case.name} was left out: the time limit of {BUDGET_ALL:.0f} s was reached."
            )
            continue
        chosen = {}
        for name in [name for name in names if name in (case.contestants or names)]:
            key = (name, case.size, case.order == 2, case.channels, case.method)
            chosen[name] = modes[key] = modes.get(key) or find_best_mode(name, case)
            advance(0, f"{case.name}: {name} is fastest with {chosen[name]}")
        timings = time_interleaved(
            case, chosen, 2 if quick else ROUNDS, BUDGET if not results else BUDGET / 3, advance
        )
        if case.memory:
            peaks = map_tasks(partial(_measure_peak_memory, case, chosen), list(chosen))
            for name, peak in zip(chosen, peaks, strict=True):
                timings[name].peak_mb = peak
                advance(0, f"{case.name}: {name} {peak:.0f} MB")
        results[case.name] = _case_result(case, timings)
    main = results[standard_cases(quick)[0].name]
    return {
        "machine": describe_machine(),
        "seconds_in_all": time.perf_counter() - began,
        "cases": results,
        "speedup": main["speedup"],
        "memory_ratio": main["memory_ratio"],
        "alone": {case.name: time_single_task(case, 1 if quick else 5) for case in SINGLE_TASKS},
        "convolutions": _convolutions(standard_cases(quick)[0], main),
        "left_out": left_out,
        "meaning": {
            "speedup": "median seconds of the peer / median seconds of the engine",
            "memory_ratio": "peak memory of the engine / peak memory of the peer",
        },
    }


def _measure_peak_memory(case: Case, modes: dict[str, Mode], name: str) -> float:
    return measure_peak_memory(name, case, modes[name])


def _case_result(case: Case, timings: dict[str, Timing]) -> dict[str, Any]:
    engine = timings["engine"]
    peers = {name: t for name, t in timings.items() if name != "engine"}
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
    """Convolutions as shares of the engine's time, and the time of direct convolutions."""
    engine = result["contestants"]["engine"]
    floor = time_required_convolutions(case)
    workers = min(engine["mode"]["workers"] if engine["mode"]["workers"] > 1 else cores(), cores())
    floor["seconds"] = floor["seconds_on_one_core"] / workers
    parts = time_shares(case)
    return {
        **floor,
        "share_of_engine": sum(parts.values()),
        "shares_of_passes": parts,
        "fraction_of_convolution_speed": floor["seconds"] / engine["minimum_seconds"],
    }
