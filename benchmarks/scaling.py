"""Measure one and two processes, and predict more: python benchmarks/scaling.py [FILE.json]

Times meta-iterations of four tasks by one process with one thread, by two processes (ranks) with
one thread each, and by one process with two threads, in turn, in under three minutes. Writes the
numbers to FILE.json and the tables to FILE.md. ``--predict FILE.json`` reads saved numbers and
computes the tables of the model again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from scaling_model import Measured, efficiency, idle_shares, sample_sizes

from anyshot.core.errors import AnyshotError
from anyshot.core.files import read_json, write_bytes, write_json

RANKS = (2, 4, 8, 16, 64)
NETWORKS = {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
BATCHES = {"4 tasks a rank": lambda ranks: 4 * ranks, "64 tasks": lambda ranks: 64}


def measure() -> dict[str, Any]:
    """Run the measurements of two ranks on this machine."""
    from anyshot.experiments.engine_benchmark import describe_machine

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ranks.json"
        here = describe_machine()
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        done = subprocess.run(
            [*command, str(Path(__file__).with_name("scaling_ranks.py")), str(out)],
            env=environment,
            check=False,
        )
        if done.returncode:
            raise AnyshotError("The ranks ended without results; their output is above.")
        return {"machine": here, "cases": read_json(out)}


def predict(case: dict[str, Any]) -> dict[str, Any]:
    """Efficiency by meta-batch, network and number of ranks, and the share of idle time."""
    model = Measured(**case["model"], sizes=sample_sizes(case["shots"]))
    return {
        "efficiency": {
            batch: {
                network: {ranks: efficiency(model, ranks, of(ranks), bits) for ranks in RANKS}
                for network, bits in NETWORKS.items()
            }
            for batch, of in BATCHES.items()
        },
        "idle": {
            batch: {ranks: idle_shares(model, ranks, of(ranks)) for ranks in RANKS}
            for batch, of in BATCHES.items()
        },
    }


def page(results: dict[str, Any]) -> str:
    """The measurements and the predictions as Markdown."""
    here = results["machine"]
    lines = ["# Scaling, measured and predicted", ""]
    lines += [
        f"{here['cores']} cores, load {here['load']:.1f} at the start, torch {here['torch']}.",
        "",
    ]
    for name, case in results["cases"].items():
        lines += [
            f"## {name}, {case['shots']}, meta-batches of 4 tasks",
            "",
            *_facts(case),
            "",
            "Predicted:",
            "",
        ]
        lines += [*_tables(case["predicted"]), ""]
    return "\n".join(lines)


def _facts(case: dict[str, Any]) -> list[str]:
    idle = case["idle"]
    ordered = 1000 * case["ordered_sum_seconds"]
    plain = 1000 * case["all_reduce_seconds"]
    return [
        "| processes × threads | median s | least s | processor s |",
        "|---|--:|--:|--:|",
        *(
            f"| {mode} | {median(wall):.3f} | {min(wall):.3f} | {min(cpu):.3f} |"
            for (mode, wall), cpu in zip(
                case["seconds"].items(), case["cpu_seconds"].values(), strict=True
            )
        ),
        "",
        f"- 2 × 1 is {case['speedup']:.2f} times as fast as 1 × 1 "
        f"({case['speedup_of_minima']:.2f} by minima), "
        f"1 × 2 {case['speedup_of_threads']:.2f} times.",
        f"- Ranks wait for {idle['by cost']:.1%} of their time; with tasks assigned in turn it "
        f"would be {idle['in turn']:.1%}.",
        f"- A gradient has {case['gradient_bytes']:,} bytes; a rank sends "
        f"{case['sent_bytes']:,} an iteration.",
        f"- Summing in order takes {ordered:.2f} ms, an ordinary all-reduce {plain:.2f} ms.",
    ]


def _tables(case: dict[str, Any]) -> list[str]:
    def row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [
        row("efficiency", "network", *(f"{n} ranks" for n in RANKS)),
        "|---|---|" + "--:|" * len(RANKS),
    ]
    for batch, networks in case["efficiency"].items():
        lines += [
            row(batch, network, *(f"{x:.0%}" for x in by.values()))
            for network, by in networks.items()
        ]
    lines += [
        "",
        row("idle", "assigned", *(f"{n} ranks" for n in RANKS)),
        "|---|---|" + "--:|" * len(RANKS),
    ]
    for batch, by in case["idle"].items():
        lines += [
            row(batch, how, *(f"{x[how]:.0%}" for x in by.values()))
            for how in ("by cost", "in turn")
        ]
    return lines


def main(arguments: list[str]) -> None:
    """Measure, or read saved measurements; print and write the tables."""
    saved = arguments[:1] == ["--predict"]
    path = next((Path(name) for name in arguments[saved:]), None)
    results = read_json(path) if saved and path else measure()
    for case in results["cases"].values():
        case["predicted"] = predict(case)
    print(page(results))
    if path:
        write_json(path, results)
        write_bytes(path.with_suffix(".md"), page(results).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
