"""Search inner learning rates for the demo's two methods on validation classes of the glyphs.

    python benchmarks/demo_search.py OUT [--iterations 60] [--tasks 100]

Runs are kept in OUT and resume there. Prints a Markdown table; the chosen values are in
`anyshot/training/presets.py`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from anyshot import TaskStream, evaluate, preset, train

STEPS = (
    (0.01, 1.0),
    (0.1, 1.0),
    (0.5, 0.5),
)  # of the body and of the head; the last pair is the paper's


def train_run(name, alpha, alpha_head, arguments):
    settings = preset("glyphs", name)
    method = settings.method.with_values(
        {"alpha": alpha, "alpha_head": alpha_head, "prediction": "naive"}, skip_unused=True
    )
    schedule = replace(
        settings.train, iterations=arguments.iterations, validate_every=0, validation_tasks=20
    )
    folder = arguments.out / f"{name}-{alpha}-{alpha_head}"
    return train(
        replace(settings, method=method, train=schedule), folder, workers=arguments.workers
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    print(
        "| method | rate of the body | of the head | accuracy | NLL | worst class | 1 shot |\n"
        + "|---" * 7
        + "|"
    )
    for name in ("maml", "taml"):
        for alpha, alpha_head in STEPS:
            run = train_run(name, alpha, alpha_head, arguments)
            # other tasks than those of the run's own validation
            stream = TaskStream(run.imageset("glyphs"), "validation", run.settings.task, seed=1)
            s = evaluate(run.load_method(), stream, arguments.tasks, workers=arguments.workers)
            one = s.by_shots["1"]
            print(
                f"| {name} | {alpha} | {alpha_head} "
                f"| {100 * s.accuracy:.1f} ± {100 * s.interval:.1f} | {s.nll:.3f} "
                f"| {100 * s.worst_class:.1f} | {100 * one:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
