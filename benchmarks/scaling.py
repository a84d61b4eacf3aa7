"""One and two processes beside each other, and what more would give: python benchmarks/scaling.py [FILE.json]

Meta-iterations of four tasks by one process and one thread, by two processes (ranks) of one thread, and by one process
of two threads, in turn, in one run of under three minutes. FILE.json gets the numbers and FILE.md the tables;
``--foretell FILE.json`` computes the tables of the model again from numbers that are there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from scaling_model import Measured, drawn_sizes, efficiency, idle_shares

from anyshot.core.errors import AnyshotError
from anyshot.core.files import read_json, write_bytes, write_json

RANKS = (2, 4, 8, 16, 64)
NETWORKS = {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
BATCHES = {"4 tasks a rank": lambda ranks: 4 * ranks, "64 tasks": lambda ranks: 64}


def measured() -> dict[str, Any]:
    """The measurements of two ranks on this machine."""
    from anyshot.experiments.engine_benchmark import machine

    with tempfile.TemporaryDirectory() as folder:
        out, where = Path(folder) / "ranks.json", machine()
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
            raise AnyshotError("The ranks ended without results; what they said is above.")
        return {"machine": where, "cases": read_json(out)}


def foretold(case: dict[str, Any]) -> dict[str, Any]:
    """Efficiency by meta-batch, network and number of ranks, and the share of the time that ranks wait."""
    model = Measured(**case["model"], sizes=drawn_sizes(case["shots"]))
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
    """What was measured and what is foretold, in Markdown."""
    where, lines = results["machine"], ["# Scaling, measured and foretold", ""]
    lines += [
        f"{where['cores']} cores, load {where['load']:.1f} before it began, torch {where['torch']}.",
        "",
    ]
    for name, case in results["cases"].items():
        lines += [
            f"## {name}, {case['shots']}, meta-batches of 4 tasks",
            "",
            *_facts(case),
            "",
            "Foretold:",
            "",
        ]
        lines += [*_tables(case["foretold"]), ""]
    return "\n".join(lines)


def _facts(case: dict[str, Any]) -> list[str]:
    idle, sums = (
        case["idle"],
        [1000 * case[f"{kind}_seconds"] for kind in ("ordered_sum", "all_reduce")],
    )
    return [
        "| processes × threads | median s | least s | processor s |",
        "|---|--:|--:|--:|",
        *(
            f"| {mode} | {median(found):.3f} | {min(found):.3f} | {min(cpu):.3f} |"
            for (mode, found), cpu in zip(
                case["seconds"].items(), case["cpu_seconds"].values(), strict=True
            )
        ),
        "",
        f"- 2 × 1 is {case['speedup']:.2f} times as fast as 1 × 1 ({case['speedup_of_minima']:.2f} by minima), "
        f"1 × 2 {case['speedup_of_threads']:.2f} times.",
        f"- Ranks wait for {idle['by cost']:.1%} of their time; dealt in turn they would for {idle['in turn']:.1%}.",
        f"- A gradient has {case['gradient_bytes']:,} bytes; a rank sends {case['sent_bytes']:,} an iteration.",
        f"- Summing in order takes {sums[0]:.2f} ms, a plain all-reduce {sums[1]:.2f} ms.",
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
        row("idle", "dealt", *(f"{n} ranks" for n in RANKS)),
        "|---|---|" + "--:|" * len(RANKS),
    ]
    for batch, by in case["idle"].items():
        lines += [
            row(batch, how, *(f"{x[how]:.0%}" for x in by.values()))
            for how in ("by cost", "in turn")
        ]
    return lines


def main(arguments: list[str]) -> None:
    """Measure, or read what was measured; show it, and write it beside the numbers."""
    again = arguments[:1] == ["--foretell"]
    path = next((Path(name) for name in arguments[again:]), None)
    results = read_json(path) if again and path else measured()
    for case in results["cases"].values():
        case["foretold"] = foretold(case)
    print(page(results))
    if path:
        write_json(path, results)
        write_bytes(path.with_suffix(".md"), page(results).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
