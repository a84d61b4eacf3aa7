"""X3: which step size does the head want, with and without zero images as padding?

    python benchmarks/variables_padding.py OUT [--tasks 30]

Question: the authors' code pads every task with zero images to the longest task of its meta-batch.
The padding enters N in the inner loss Σ ω_c C / N Σ CE, so a task of N images learns with a step
N / N_pad times as large. Their trained γ of the head falls as about 1 / N. Is that a repair of the
padding? No training: constant γ of the head in the weights `cifar-fs` with a zero head, on tasks of
10, 50 and 200 images (2, 10 and 40 a class), each as it is and padded to 200 images. If padding is
the reason, the best γ depends little on N without padding, and falls as 1 / N with it.

Validation tasks of CIFAR-FS, 10 steps on one view. Cost: about 0.2 s of one core for each
prediction; 30 tasks 5 min. Writes OUT/results.json and OUT/table.md; stop it and start it again as
you like.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import anyshot
from anyshot.methods.gradient_method import GradientMethod

SHOTS = (2, 10, 40)
PADDED_TO = 200  #: images; five classes of 40
GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def pad(problem: anyshot.InnerProblem, size: int) -> anyshot.InnerProblem:
    """The problem with zero images up to ``size``, which enter the batch statistics and N."""
    n = len(problem.labels)
    if n >= size:
        return problem
    more = size - n
    black = problem.images.new_zeros(more, *problem.images.shape[1:])
    return replace(
        problem,
        images=torch.cat([problem.images, black]),
        views=tuple(torch.cat([view, black]) for view in problem.views),
        labels=torch.cat([problem.labels, problem.labels.new_zeros(more)]),
        weights=torch.cat([problem.weights * (n / size), problem.weights.new_zeros(more)]),
    )


def with_head_gamma(method: anyshot.Method, gamma: float, padded: bool) -> anyshot.Method:
    """A copy with a zero head and constant φ (γ of the head alone), with or without padding."""
    changed = copy.copy(method)
    changed.settings = replace(method.settings, flips=False, zooms=(), test_steps=10)
    changed.head = partial(GradientMethod.head, changed)
    layers = len(method.body.layer_parameters)
    constant = torch.tensor([0.0] * (layers - 1) + [math.log(gamma)])

    def apply(phi: dict[str, Tensor], shots: Tensor) -> dict[str, Tensor]:
        return {"gamma": constant}

    def padded_problem(*arguments: object) -> anyshot.InnerProblem:
        return pad(type(method).inner_problem(changed, *arguments), PADDED_TO)

    changed.apply_gains_and_priors = apply
    if padded:
        changed.inner_problem = padded_problem
    return changed


def table(cells: list[dict]) -> str:
    """Markdown: accuracy and NLL by task size, padding and γ; the best NLL of a row is bold."""
    lines = [
        f"Accuracy in % / NLL by γ of the head, {cells[0]['tasks']} validation tasks of CIFAR-FS; "
        "bold: best NLL.",
        "",
        f"| images of the task | padded | {' | '.join(f'γ = {gamma:g}' for gamma in GAMMAS)} |",
        "|--:|---|" + "--:|" * len(GAMMAS),
    ]
    for shots, padded in sorted({(cell["shots"], cell["padded"]) for cell in cells}):
        row = [cell for cell in cells if (cell["shots"], cell["padded"]) == (shots, padded)]
        scores = {c["gamma"]: (np.mean(c["accuracy"]), np.mean(c["nll"])) for c in row}
        texts = {gamma: f"{score[0]:.1f} / {score[1]:.2f}" for gamma, score in scores.items()}
        best = min(scores, key=lambda gamma: scores[gamma][1])
        texts[best] = f"**{texts[best]}**"
        values = " | ".join(texts.get(gamma, "–") for gamma in GAMMAS)
        lines.append(f"| {5 * shots} | {f'to {PADDED_TO}' if padded else 'no'} | {values} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=1e9)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    target = chosen.out / "results.json"
    cells = json.loads(target.read_text()) if target.exists() else []
    done = {(cell["shots"], cell["padded"], cell["gamma"]) for cell in cells}
    method = anyshot.load("cifar-fs")
    start = time.monotonic()
    for shots in SHOTS:
        settings = anyshot.TaskSettings(shots=f"fixed:{shots}")
        stream = anyshot.TaskStream(anyshot.open_images("cifar-fs"), "validation", settings, 1)
        for padded in (False, True) if 5 * shots < PADDED_TO else (False,):
            for gamma in GAMMAS:
                if (shots, padded, gamma) in done:
                    continue
                if time.monotonic() - start > 60 * chosen.minutes:
                    return
                changed = with_head_gamma(method, gamma, padded)
                summary = anyshot.evaluate(changed, stream, chosen.tasks, prediction="naive")
                cell = {
                    "shots": shots,
                    "padded": padded,
                    "gamma": gamma,
                    "tasks": chosen.tasks,
                    "accuracy": [100 * score.accuracy for score in summary.scores],
                    "nll": [score.nll for score in summary.scores],
                }
                cells.append(cell)
                target.write_text(json.dumps(cells))
                (chosen.out / "table.md").write_text(table(cells))
                print(shots, padded, gamma, np.mean(cell["accuracy"]), np.mean(cell["nll"]))


if __name__ == "__main__":
    main()
