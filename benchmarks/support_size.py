"""Time and memory of one second-order task against the size of its support set: a figure in docs.

    python benchmarks/support_size.py docs/figures/engine

writes engine.json, engine.png and engine.svg. It takes some minutes on two cores. A contestant
stops at the size where a task takes longer than LIMIT seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from anyshot.core.parallel.threads import tune_process

tune_process()

from anyshot.core.files import write_json  # noqa: E402
from anyshot.experiments.engine_benchmark import describe_machine  # noqa: E402
from anyshot.experiments.engine_benchmark.cases import Case, make_tasks  # noqa: E402
from anyshot.experiments.engine_benchmark.contestants import installed_contestants  # noqa: E402
from anyshot.experiments.engine_benchmark.measure import (  # noqa: E402
    FORMATS,
    Mode,
    find_best_mode,
    measure_peak_memory,
    run_iteration,
)

SIZES, STEPS, ROUNDS, LIMIT = (5, 25, 50, 125, 250, 500, 1000), 5, 2, 12.0
COLOURS = {"engine": "#0072b2", "autograd": "#d55e00", "higher": "#009e73", "torchopt": "#cc79a7"}


def measure() -> dict[str, list[dict[str, float]]]:
    names = installed_contestants()[0]
    modes: dict[str, Mode] = {
        name: find_best_mode(name, Case("figure", 32, (125,))) for name in names
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for n in SIZES:
        case = Case("figure", 32, (n,), steps=STEPS)
        running = [
            name for name in names if not found[name] or found[name][-1]["seconds"] * 2 < LIMIT
        ]
        laid = {
            name: [
                task.with_memory_format(FORMATS[modes[name].layout]) for task in make_tasks(case)
            ]
            for name in running
        }
        seconds = {name: float("inf") for name in running}
        for _ in range(ROUNDS):
            for name in running:
                start = time.perf_counter()
                run_iteration(name, laid[name], 2, modes[name])
                seconds[name] = min(seconds[name], time.perf_counter() - start)
        for name in running:
            peak = measure_peak_memory(name, case, modes[name])
            found[name].append({"support": n, "seconds": seconds[name], "peak_memory_mb": peak})
            print(f"{n:5d} {name:9s} {seconds[name]:7.2f} s {peak:7.0f} MB", flush=True)
    return found


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    labels = {"seconds": "seconds for one task", "peak_memory_mb": "peak memory, MB"}
    for axis, (key, label) in zip(axes, labels.items(), strict=True):
        for name, rows in found.items():
            axis.plot(
                [r["support"] for r in rows],
                [r[key] for r in rows],
                "o-",
                ms=4,
                color=COLOURS[name],
                label=name,
            )
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="support images (Conv4-32, 32×32, 5 steps)",
            ylabel=label,
        )
        axis.grid(True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    results = measure()
    write_json(target.with_suffix(".json"), {"machine": describe_machine(), "contestants": results})
    draw(results, target)
