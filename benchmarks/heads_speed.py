"""Time to fit a task to its features, features per second, and the largest memory of the process.

python benchmarks/heads_speed.py [--threads 2] [--cpu] [--rounds 30] [--backbone NAME]

With --cpu, CPU time of all threads instead of wall-clock time, for computers that are not idle.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import torch

from anyshot.classifier.backbones import open_backbone
from anyshot.classifier.weights import open_weights

WAY, IMAGES, WIDTH, BATCH = 5, 100, 3728, 16


def seconds(work, arguments):
    """Seconds of each round, after a warm-up."""
    clock = time.process_time if arguments.cpu else time.perf_counter
    work()
    found = []
    for _ in range(arguments.rounds):
        start = clock()
        work()
        found.append(clock() - start)
    return np.array(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--backbone", default="efficientnet-lite0")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(IMAGES) % WAY
    centres = torch.randn(WAY, WIDTH, generator=rng)
    features = (centres[labels] + 2 * torch.randn(IMAGES, WIDTH, generator=rng)).clamp_min(0)
    learner = open_weights("photos-lite0").learner
    took = 1000 * seconds(lambda: learner.adapt(features, labels), arguments)
    print(
        f"fitting {IMAGES} images of {WAY} classes: median {np.median(took):.0f} ms, slowest of "
        f"{arguments.rounds} {took.max():.0f} ms, {torch.get_num_threads()} threads"
    )
    backbone = open_backbone(arguments.backbone)
    pixels = np.random.default_rng(0).integers(
        0, 256, (BATCH, backbone.side, backbone.side, 3), np.uint8
    )
    rate = BATCH / np.median(seconds(lambda: backbone(pixels), arguments))
    name, side = backbone.name, backbone.side
    print(f"features of {name} at {side} x {side}: {rate:.0f} images per second")
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest memory of the process: {largest:.0f} MB, {started:.0f} MB before the work")


if __name__ == "__main__":
    main()
