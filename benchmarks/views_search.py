"""Search test-time augmentation for trained parameters on validation images.

    python benchmarks/views_search.py [--weights cifar-fs] [--tasks 60]

All rows have the same parameters and their stored temperature. They differ in the number of inner
steps, in mirror images and in zooms. Differences are to the first row on the same tasks, with 95 %
intervals. Prints a Markdown table. CIFAR-FS and SVHN must be prepared.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from anyshot import TaskSettings, TaskStream, evaluate, load, open_images
from anyshot.evaluation.metrics import Summary, paired_difference

# steps, mirror images, other zooms
CANDIDATES: tuple[tuple[int, bool, tuple[float, ...]], ...] = (
    (10, False, ()),
    (20, False, ()),
    (10, True, ()),
    (10, True, (0.87, 1.15)),
    (10, True, (0.75, 1.3)),
    (20, True, (0.75, 1.3)),
    (40, True, (0.75, 1.3)),
    (20, True, (0.6, 1.5)),
    (20, True, (0.75, 0.87, 1.15, 1.3)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", default="cifar-fs")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    method = load(arguments.weights)
    streams = [
        TaskStream(open_images(i), "validation", TaskSettings(), 1) for i in ("cifar-fs", "svhn")
    ]
    first: list[Summary] = []
    print(
        "| steps | mirror images | other zooms | accuracy | difference | NLL |\n" + "|---" * 6 + "|"
    )
    for steps, flips, zooms in CANDIDATES:
        method.settings = replace(method.settings, test_steps=steps, flips=flips, zooms=zooms)
        summaries = [
            evaluate(method, stream, arguments.tasks, prediction="naive", workers=arguments.workers)
            for stream in streams
        ]
        first = first or summaries
        pairs = [
            paired_difference(before, now) for before, now in zip(first, summaries, strict=True)
        ]
        cells = (
            (f"{100 * s.accuracy:.1f}" for s in summaries),
            (f"{100 * p.accuracy:+.1f} ± {100 * (p.accuracy_interval or 0):.1f}" for p in pairs),
            (f"{s.nll:.3f}" for s in summaries),
        )
        options = (str(steps), "yes" if flips else "no", ", ".join(map(str, zooms)) or "none")
        print(f"| {' | '.join((*options, *map(' / '.join, cells)))} |", flush=True)


if __name__ == "__main__":
    main()
