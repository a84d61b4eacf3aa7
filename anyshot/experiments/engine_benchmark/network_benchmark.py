"""``loss_gradient`` against other libraries on two networks: time, and memory at two lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from anyshot.core.parallel.threads import map_tasks
from anyshot.experiments.engine_benchmark.cases import QUERY, Case, network_cases
from anyshot.experiments.engine_benchmark.libraries import explain_missing, missing_libraries
from anyshot.experiments.engine_benchmark.measure import (
    describe_machine,
    find_best_mode,
    measure_peak_memory,
    time_interleaved,
)
from anyshot.experiments.engine_benchmark.network_contestants import NETWORK_CONTESTANTS

OURS = "loss_gradient"
ROUNDS, BUDGET = 5, 25.0  #: of each network; seconds
MEMORY_STEPS = (5, 20)  #: inner steps at which memory is measured


def run_network_benchmark(
    quick: bool = False, advance: Callable[..., None] = lambda n=1, note="": None
) -> dict[str, Any]:
    """Measure all networks; the result is ready for JSON."""
    missing = missing_libraries()
    names = [name for name in NETWORK_CONTESTANTS if name not in missing]
    return {
        "machine": describe_machine(),
        "cases": {
            case.name: _measure(case, names, quick, advance) for case in network_cases(quick)
        },
        "left_out": [explain_missing(name) for name in missing],
        "meaning": {
            "speedup": "median seconds of the peer / median seconds of loss_gradient",
            "memory_ratio": "peak memory of loss_gradient / peak memory of the peer, by steps",
        },
    }


def _measure(
    case: Case, names: list[str], quick: bool, advance: Callable[..., None]
) -> dict[str, Any]:
    modes = {name: find_best_mode(name, case) for name in names}
    rounds = 2 if quick else ROUNDS
    timings = time_interleaved(case, modes, rounds, BUDGET, advance)
    contestants: dict[str, dict[str, Any]] = {n: t.summary() for n, t in timings.items()}
    steps = (case.steps,) if quick else MEMORY_STEPS
    requests = [(name, k) for name in names for k in steps]
    peaks = map_tasks(
        lambda request: measure_peak_memory(
            request[0], replace(case, steps=request[1]), modes[request[0]]
        ),
        requests,
    )
    for figures in contestants.values():
        figures["peak_memory_mb"] = {}
    for (name, k), peak in zip(requests, peaks, strict=True):
        contestants[name]["peak_memory_mb"][str(k)] = peak
        advance(0, f"{case.name}: {name} {peak:.0f} MB for {k} steps")
    ours = contestants[OURS]["peak_memory_mb"]
    peers = {name: figures for name, figures in contestants.items() if name != OURS}
    return {
        **asdict(case),
        "query": QUERY,
        "contestants": contestants,
        "speedup": {
            name: median(timings[name].wall) / median(timings[OURS].wall) for name in peers
        },
        "speedup_of_minima": {
            name: min(timings[name].wall) / min(timings[OURS].wall) for name in peers
        },
        "speedup_of_cpu": {name: min(timings[name].cpu) / min(timings[OURS].cpu) for name in peers},
        "memory_ratio": {
            name: {k: ours[k] / figures["peak_memory_mb"][k] for k in ours}
            for name, figures in peers.items()
        },
    }
