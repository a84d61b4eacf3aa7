"""Search inner learning rates from one pre-trained body, for each method, on validation images.

    python benchmarks/steps_search.py OUT [--from cifar-fs] [--tasks 40]
    python benchmarks/steps_search.py OUT --iterations 200 --methods maml,meta-sgd --tasks 100

Without iterations nothing is meta-learned: 10 fixed steps from the body, with a head that starts at
zero (MAML, Meta-SGD, MT-net, TAML) or at the prototypes (Proto-MAML). With iterations, fewer
candidates are trained like the scale ``short`` of `anyshot reproduce`, and kept in OUT. Prints a
Markdown table. CIFAR-FS and SVHN must be prepared.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from pathlib import Path

from anyshot import TaskSettings, TaskStream, create_method, evaluate, open_images, preset, train
from anyshot.core.settings import Settings
from anyshot.experiments.scale import SHORT
from anyshot.methods import Method
from anyshot.runs.initial_body import open_initial_body

BODY = (0.0003, 0.003, 0.03, 0.1, 0.3)
HEAD = {"maml": (0.3, 1.0, 3.0), "proto-maml": (0.03, 0.3, 1.0, 3.0)}
LEARNED = {
    "maml": ((0.003, 1.0), (0.03, 1.0)),
    "meta-sgd": ((0.003, 1.0), (0.03, 1.0)),
    "taml": ((0.003, 1.0), (0.03, 1.0)),
    "proto-maml": ((0.003, 1.0), (0.003, 3.0), (0.03, 0.03)),
}


def make_settings(
    name: str, alpha: float, alpha_head: float, arguments: argparse.Namespace
) -> Settings:
    base = preset("cifar-fs-paper", name)
    method = {
        **SHORT.method,
        **SHORT.methods.get(name, {}),
        "alpha": alpha,
        "alpha_head": alpha_head,
    }
    schedule = {
        **SHORT.train,
        "body_from": arguments.start,
        "iterations": max(1, arguments.iterations),
    }
    return replace(
        base,
        method=base.method.with_values(method, skip_unused=True),
        train=replace(base.train, **schedule),
    )


def make_method(
    name: str, alpha: float, alpha_head: float, arguments: argparse.Namespace
) -> Method:
    settings = make_settings(name, alpha, alpha_head, arguments)
    if arguments.iterations:
        folder = arguments.out / f"{name}-{alpha}-{alpha_head}"
        return train(settings, folder, workers=arguments.workers, tensorboard=False).load_method()
    method = create_method(settings.method, (32, 32))
    open_initial_body(arguments.start).load_into(method)
    return method


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="start", default="cifar-fs")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--methods", default="")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    grid = (
        LEARNED
        if arguments.iterations
        else {n: tuple(itertools.product(BODY, heads)) for n, heads in HEAD.items()}
    )
    sets = [open_images(name) for name in ("cifar-fs", "svhn")]
    seed = 1 if arguments.iterations else 0  # other tasks than those of a run's own validation
    streams = [TaskStream(images, "validation", TaskSettings(), seed) for images in sets]
    print("| method | rate of the body | of the head | accuracy | NLL |\n" + "|---" * 5 + "|")
    for name in arguments.methods.split(",") if arguments.methods else grid:
        for alpha, alpha_head in grid[name]:
            method = make_method(name, alpha, alpha_head, arguments)
            summaries = [
                evaluate(
                    method, stream, arguments.tasks, prediction="naive", workers=arguments.workers
                )
                for stream in streams
            ]
            accuracy = " / ".join(f"{100 * s.accuracy:.1f}" for s in summaries)
            nll = " / ".join(f"{s.nll:.3f}" for s in summaries)
            print(f"| {name} | {alpha} | {alpha_head} | {accuracy} | {nll} |", flush=True)


if __name__ == "__main__":
    main()
