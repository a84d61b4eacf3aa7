"""One and two processes beside each other, and what more would give: python -m anyshot.bench.scaling [FILE.json]

Meta-iterations of four tasks by one process and one thread, by two processes (ranks) of one thread, and by one process
of two threads, in turn, in one run of under three minutes. ``--foretell FILE.json`` computes the tables of the model
again from a file that was written before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from anyshot.bench.scaling_model import Measured, efficiency, idle_shares
from anyshot.errors import AnyshotError
from anyshot.files import read_json, write_json

RANKS = (2, 4, 8, 16, 64)
NETWORKS = {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
BATCHES = {"4 tasks a rank": lambda ranks: 4 * ranks, "64 tasks": lambda ranks: 64}


def measured() -> dict[str, Any]:
    """The measurements of two ranks on this machine."""
    from anyshot.bench import machine

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ranks.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        done = subprocess.run([*command, "-m", "anyshot.bench.scaling_ranks", str(out)], env=environment, check=False)
        if done.returncode:
            raise AnyshotError("The ranks ended without results; what they said is above.")
        return {"machine": machine(), "cases": read_json(out)}


def foretold(case: dict[str, Any]) -> dict[str, Any]:
    """Efficiency by meta-batch, network and number of ranks, and the share of the time that ranks wait."""
    model = Measured(**{**case["model"], "sizes": tuple(case["model"]["sizes"])})
    return {
        "efficiency": {
            batch: {
                network: {ranks: efficiency(model, ranks, of(ranks), bits) for ranks in RANKS}
                for network, bits in NETWORKS.items()
            }
            for batch, of in BATCHES.items()
        },
        "idle": {
            batch: {ranks: idle_shares(model, ranks, of(ranks)) for ranks in RANKS} for batch, of in BATCHES.items()
        },
    }


def show(results: dict[str, Any]) -> None:
    """What was measured, in sentences, and what is foretold, in tables of Markdown."""
    for name, case in results["cases"].items():
        print(*_facts(name, case), "", *_tables(case["foretold"]), "", sep="\n")


def _facts(name: str, case: dict[str, Any]) -> list[str]:
    idle, sums = case["idle"], [1000 * case[f"{kind}_seconds"] for kind in ("ordered_sum", "all_reduce")]
    return [
        f"{name}, {case['shots']}, 4 tasks; seconds of an iteration by processes × threads:",
        *(
            f"  {mode}: median {median(found):.3f}, least {min(found):.3f}, of processors {min(cpu):.3f}"
            for (mode, found), cpu in zip(case["seconds"].items(), case["cpu_seconds"].values(), strict=True)
        ),
        f"  2 × 1 is {case['speedup']:.2f} times as fast as 1 × 1 ({case['speedup_of_minima']:.2f} by minima).",
        f"  1 × 2 is {case['speedup_of_threads']:.2f} times as fast as 1 × 1.",
        f"  Ranks wait for {idle['by cost']:.1%} of their time; dealt in turn they would for {idle['in turn']:.1%}.",
        f"  A gradient has {case['gradient_bytes']:,} bytes; a rank sends {case['sent_bytes']:,} an iteration.",
        f"  Summing in order takes {sums[0]:.2f} ms, a plain all-reduce {sums[1]:.2f} ms.",
    ]


def _tables(case: dict[str, Any]) -> list[str]:
    def row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [row("efficiency", "network", *(f"{n} ranks" for n in RANKS)), "|---|---|" + "--:|" * len(RANKS)]
    for batch, networks in case["efficiency"].items():
        lines += [row(batch, network, *(f"{x:.0%}" for x in by.values())) for network, by in networks.items()]
    lines += ["", row("idle", "dealt", *(f"{n} ranks" for n in RANKS)), "|---|---|" + "--:|" * len(RANKS)]
    for batch, by in case["idle"].items():
        lines += [row(batch, how, *(f"{x[how]:.0%}" for x in by.values())) for how in ("by cost", "in turn")]
    return lines


def main(arguments: list[str]) -> None:
    """Measure, or read what was measured; show, and write."""
    again = arguments[:1] == ["--foretell"]
    path = next(iter(arguments[1:] if again else arguments), None)
    results = read_json(path) if again and path else measured()
    for case in results["cases"].values():
        case["foretold"] = foretold(case)
    show(results)
    if path and not again:
        write_json(path, results)


if __name__ == "__main__":
    main(sys.argv[1:])
