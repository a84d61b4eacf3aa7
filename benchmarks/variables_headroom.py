"""Headroom of ω and γ in pretrained weights: constants in place of what the encoder infers.

    python benchmarks/variables_headroom.py docs/results/variables/headroom.json [--tasks 100]

Validation tasks of CIFAR-FS and SVHN, posterior means. Each row replaces the effective φ by
constants: γ of the head, γ of the convolutions (0: the body stays where it is) or the exponent τ of
the class-size prior ω ∝ N^−τ. "oracle" chooses the best row for each task size (terciles) on even
tasks and scores it on odd ones: what a perfect encoder could gain by looking at the task's size.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

import anyshot

SETS = ("cifar-fs", "svhn")


def constants(
    method: anyshot.Method, head: float = 1.0, body: float = 1.0, tau: float | None = None
):
    """A replacement for ``apply_gains_and_priors`` that ignores the encoder."""
    layers = len(method.body.layer_parameters)
    exponent = float(method.tau) if tau is None else tau
    low = -60.0  # exp(−60): the layer does not move
    gamma = torch.full((layers,), math.log(body) if body else low)
    gamma[-1] = math.log(head)

    def apply(phi, shots):
        return {"omega": -exponent * shots.log(), "gamma": gamma, "z": torch.zeros_like(phi["z"])}

    return apply


def rows() -> dict[str, dict[str, float]]:
    """Name of each row and the constants that it sets."""
    return {
        "constants": {},
        **{f"γ of the head {x:g}": {"head": x} for x in (0.25, 0.5, 2.0, 4.0)},
        **{f"γ of the body {x:g}": {"body": x} for x in (0.0, 0.3, 3.0, 10.0)},
        **{f"τ = {x:g}": {"tau": x} for x in (0.5, 1.0, 1.25, 2.0)},
    }


def oracle(scores: dict[str, np.ndarray], sizes: np.ndarray) -> float:
    """Mean score on odd tasks of the row that is best on even tasks of the same size tercile."""
    edges = np.quantile(sizes, (1 / 3, 2 / 3))
    group = np.searchsorted(edges, sizes)
    even = np.arange(len(sizes)) % 2 == 0
    reached = []
    for tercile in range(3):
        train = even & (group == tercile)
        test = ~even & (group == tercile)
        best = max(scores, key=lambda name: scores[name][train].mean())
        reached += scores[best][test].tolist()
    return float(np.mean(reached))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", default="cifar-fs")
    parser.add_argument("--tasks", type=int, default=100)
    chosen = parser.parse_args()
    method = anyshot.load(chosen.weights)
    inferred = method.apply_gains_and_priors
    results: dict = {"weights": chosen.weights, "tasks": chosen.tasks, "sets": {}}
    for images in SETS:
        stream = anyshot.TaskStream(
            anyshot.open_images(images), "validation", anyshot.TaskSettings(), 1
        )
        accuracy, nll = {}, {}
        for name, changes in {"inferred (as shipped)": None, **rows()}.items():
            changed = inferred if changes is None else constants(method, **changes)
            method.apply_gains_and_priors = changed
            summary = anyshot.evaluate(method, stream, chosen.tasks, prediction="naive")
            accuracy[name] = np.array([100 * score.accuracy for score in summary.scores])
            nll[name] = np.array([score.nll for score in summary.scores])
            sizes = np.array([sum(score.shots) for score in summary.scores])
        base = accuracy["constants"]
        table = {}
        for name, values in accuracy.items():
            difference = values - base
            table[name] = {
                "accuracy": values.mean(),
                "nll": nll[name].mean(),
                "difference": difference.mean(),
                "interval": 1.96 * difference.std(ddof=1) / len(values) ** 0.5,
            }
        odd = np.arange(len(sizes)) % 2 == 1
        results["sets"][images] = {
            "rows": table,
            "oracle by task size": oracle(accuracy, sizes),
            "best constant on the same tasks": max(v[odd].mean() for v in accuracy.values()),
        }
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(results, indent=1))
        for name, row in table.items():
            print(f"{images:9s} {name:24s} {row['accuracy']:.2f} ({row['difference']:+.2f} "
                  f"± {row['interval']:.2f}) NLL {row['nll']:.3f}")  # fmt: skip
        print(images, {k: v for k, v in results["sets"][images].items() if k != "rows"})


if __name__ == "__main__":
    main()
