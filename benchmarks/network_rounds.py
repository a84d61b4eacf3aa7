"""Time or memory of ``loss_gradient`` and other libraries on the networks of `anyshot bench`.

    python benchmarks/network_rounds.py OUT.json "vision transformer" --rounds 5 [--threads 1]
    python benchmarks/network_rounds.py OUT.json ResNet-12 --memory

The same measurements as `anyshot bench --part networks`, one part at a time, for machines that are
idle only for a minute or two. The first round is a warm-up and does not count. Results are added to
the file.
"""

from __future__ import annotations

from anyshot.core.parallel.threads import tune_process

tune_process()  # before torch is loaded, as the command does

import argparse  # noqa: E402
import os  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

from anyshot.core.files import read_json, write_json  # noqa: E402
from anyshot.experiments.engine_benchmark.cases import Case, network_cases  # noqa: E402
from anyshot.experiments.engine_benchmark.measure import (  # noqa: E402
    describe_machine,
    find_best_mode,
    measure_peak_memory,
    time_interleaved,
)
from anyshot.experiments.engine_benchmark.network_benchmark import MEMORY_STEPS  # noqa: E402
from anyshot.experiments.engine_benchmark.network_contestants import (  # noqa: E402
    NETWORK_CONTESTANTS,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("network", choices=[case.name for case in network_cases()])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--names", default=",".join(NETWORK_CONTESTANTS), help="of contestants")
    arguments = parser.parse_args()
    names = arguments.names.split(",")
    torch.set_num_threads(arguments.threads)
    [case] = [case for case in network_cases() if case.name == arguments.network]
    found = read_json(arguments.out) if arguments.out.exists() else {"machine": describe_machine()}
    part = found.setdefault(case.name, {})
    if arguments.memory:
        part.setdefault("peak MB", {}).update(peaks(case, names))
    else:
        part[f"seconds, threads {arguments.threads}"] = seconds(case, names, arguments.rounds)
    write_json(arguments.out, found)


def seconds(case: Case, names: list[str], rounds: int) -> dict[str, Any]:
    """Wall and CPU time of each contestant in its faster memory format, contestants in turn."""
    modes = {name: find_best_mode(name, case) for name in names}
    load = os.getloadavg()[0]
    timings = time_interleaved(case, modes, rounds + 1, float("inf"), lambda n=1, note="": None)
    results: dict[str, Any] = {"load before": load}
    for name, timing in timings.items():
        wall, cpu = timing.wall[1:], timing.cpu[1:]
        results[name] = {"layout": timing.mode.layout, "wall": wall, "CPU": cpu}
        print(f"{name}: min {min(wall):.2f} median {median(wall):.2f} CPU {min(cpu):.2f} s")
    return results


def peaks(case: Case, names: list[str]) -> dict[str, dict[str, float]]:
    """Peak memory of each contestant by the number of steps."""
    results: dict[str, dict[str, float]] = {}
    for name in names:
        mode = find_best_mode(name, case)
        results[name] = {
            str(k): measure_peak_memory(name, replace(case, steps=k), mode) for k in MEMORY_STEPS
        }
        print(name, results[name], flush=True)
    return results


if __name__ == "__main__":
    main()
