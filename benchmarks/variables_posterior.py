"""What a trained encoder infers: ω̃ by class size, γ̃ by task size, and the width of z̃.

    python benchmarks/variables_posterior.py FILE.json NAME RUN [--checkpoint FILE] [--tasks 100]

The posterior before gains and class-size prior, so that nothing but the encoder's own output is
shown, with the learned τ and gains next to it. Validation tasks of both sets. Cost: seconds.
Writes FILE.json; NAME is its label in the figure.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from paired_rows import SETS
from paper_protocol import load_checkpoint

import anyshot


@torch.no_grad()
def infer(method: anyshot.Method, images: str, tasks: int) -> dict:
    """Posterior means of ω̃ and γ̃, and the mean size and deviation of z̃, on validation tasks."""
    stream = anyshot.TaskStream(
        anyshot.open_images(images), "validation", anyshot.TaskSettings(), 1
    )
    omega, gamma, size, width, kl = [], [], [], [], []
    for index in range(tasks):
        task = stream.task(index)
        support, labels, _, _ = method.task_tensors(task)
        q = method.posterior(support, labels, task.way)
        kl.append(q.kl().item())
        if "omega" in q.mean:
            values = q.mean["omega"].flatten().tolist()
            omega += [[int(n), value] for n, value in zip(task.shots, values, strict=True)]
        if "gamma" in q.mean:
            gamma.append([len(task), q.mean["gamma"].tolist()])
        if "z" in q.mean:
            size.append(q.mean["z"].abs().mean().item())
            width.append(q.deviation["z"].mean().item())
    return {
        "omega": omega,
        "gamma": gamma,
        "mean_size_of_z": float(np.mean(size)) if size else None,
        "mean_deviation_of_z": float(np.mean(width)) if width else None,
        "kl": float(np.mean(kl)),
    }


def slope(pairs: list, least: int = 1) -> float:
    """The exponent of N in exp(value) ∝ N^exponent, by least squares over N ≥ least."""
    chosen = np.array([pair for pair in pairs if pair[0] >= least])
    return float(np.polyfit(np.log(chosen[:, 0]), chosen[:, 1], 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--tasks", type=int, default=100)
    chosen = parser.parse_args()
    if chosen.checkpoint:
        method = load_checkpoint(anyshot.Run(chosen.run), chosen.checkpoint)
    else:
        method = anyshot.load(str(chosen.run))
    record = {
        "name": chosen.name,
        "tau": None if method.tau is None else float(method.tau),
        "gains": {name: float(value.exp()) for name, value in method.log_gain.items()},
        **{images: infer(method, images, chosen.tasks) for images in SETS},
    }
    for images in SETS:
        found = record[images]
        if found["omega"]:
            found["slope_of_omega"] = slope(found["omega"])
        if found["gamma"]:
            layers = range(len(found["gamma"][0][1]))
            found["slopes_of_gamma"] = [
                slope([[n, values[layer]] for n, values in found["gamma"]]) for layer in layers
            ]
        print(images, {k: v for k, v in found.items() if k not in ("omega", "gamma")})
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
