"""Headroom of two task-dependent decisions on a pre-trained body: which depth, and how far to move.

    python benchmarks/depth_headroom.py docs/results/variables/depth.json [--tasks 60]

Validation tasks of CIFAR-FS and SVHN. A balanced logistic regression is fitted to features of
layers 3 and 4 together, for several shares of layer 3 and several strengths C of the
regularisation (small C: stay close to the prior, large C: follow the task's images). Support and
query images are seen in the views that the weights were tested with. Two ways to choose are
compared: one constant for all tasks, and the choice by the task's own support images (five-fold
cross-validation, log loss, classes count alike).
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshot

SETS = ("cifar-fs", "svhn")
SHARES = (0.0, 0.3, 0.6, 1.0)  #: of layer 3
STRENGTHS = (0.03, 0.1, 0.3)  #: C
FOLDS = 5
NORM = 10.0  #: mean norm that features are scaled to


def layer_features(method: anyshot.Method, images: Tensor) -> list[Tensor]:
    """Flattened activations of layers 3 and 4, [n, 512] and [n, 128], with batch statistics."""
    outputs = []
    x = images
    for number, shift in enumerate(method.shift, start=1):
        y = F.conv2d(x, method.theta[f"conv{number}_weight"], padding=1)
        mean = y.mean((0, 2, 3), keepdim=True)
        variance = y.var((0, 2, 3), unbiased=False, keepdim=True)
        y = (y - mean) / (variance + 1e-3).sqrt() + shift.view(1, -1, 1, 1)
        x = F.max_pool2d(F.relu(y), 2)
        outputs.append(x.flatten(1))
    return outputs[2:]


def kernels(method: anyshot.Method, task: anyshot.Task) -> tuple[list[Tensor], list[list[Tensor]]]:
    """Inner products of centred features: support × support, and query × support per view."""
    support, _, query, _ = method.task_tensors(task)
    views = list(zip(method.views(support), method.views(query), strict=True))
    if not task.flip_invariant:
        views = views[::2]
    inside, outside = [], []
    pairs = [(layer_features(method, s), layer_features(method, q)) for s, q in views]
    for layer in range(2):
        left, right = [], []
        for s, q in pairs:
            centred = s[layer] - s[layer].mean(0)
            scale = NORM / centred.norm(dim=1).mean()
            left.append(scale * centred)
            right.append(scale * (q[layer] - q[layer].mean(0)))
        stacked = torch.cat(left)
        inside.append(stacked @ stacked.t())
        outside.append([view @ stacked.t() for view in right])
    return inside, outside


def balanced(labels: Tensor, way: int) -> Tensor:
    """Image weights with which classes count alike; their mean is 1."""
    weights = 1 / torch.bincount(labels, minlength=way)[labels].float()
    return weights * len(labels) / weights.sum()


def fit(kernel: Tensor, labels: Tensor, way: int, strength: float, views: int) -> tuple:
    """Kernel logistic regression: coefficients [N, way] and bias [way]."""
    weights = balanced(labels, way) / views
    coefficients = torch.zeros(len(labels), way, requires_grad=True)
    bias = torch.zeros(way, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [coefficients, bias], max_iter=30, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = kernel @ coefficients
        losses = F.cross_entropy(logits + bias, labels, reduction="none")
        loss = (weights * losses).sum() + (coefficients * logits).sum() / (2 * strength)
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return coefficients.detach(), bias.detach()


def held_out_score(kernel: Tensor, labels: Tensor, way: int, strength: float) -> float:
    """Mean log-probability of held-out support images; classes count alike."""
    rng = np.random.default_rng(0)
    fold = np.zeros(len(labels), int)
    for c in range(way):
        rows = rng.permutation(np.flatnonzero(labels.numpy() == c))
        fold[rows] = (np.arange(len(rows)) + rng.integers(FOLDS)) % FOLDS
    scores = torch.zeros(len(labels))
    counts = torch.bincount(labels, minlength=way)
    for number in range(FOLDS):
        test = torch.from_numpy(fold == number) & (counts[labels] > 1)
        train = ~test
        if test.any() and len(labels[train].unique()) == way:
            a, b = fit(kernel[train][:, train], labels[train], way, strength, views=1)
            logits = kernel[test][:, train] @ a + b
            scores[test] = logits.log_softmax(1)[torch.arange(int(test.sum())), labels[test]]
    weights = (1 / counts[labels].float()) * (counts[labels] > 1)
    return float((weights * scores).sum() / weights.sum().clamp_min(1e-9))


def measure_task(method: anyshot.Method, task: anyshot.Task) -> tuple[dict, dict]:
    """Accuracy and NLL of every (share, strength), and their held-out scores."""
    inside, outside = kernels(method, task)
    labels, way = task.support_labels, task.way
    views = len(outside[0])
    repeated = labels.repeat(views)
    results, scores = {}, {}
    for share, strength in itertools.product(SHARES, STRENGTHS):
        kernel = share * inside[0] + (1 - share) * inside[1]
        a, b = fit(kernel, repeated, way, strength, views)
        answers = [
            ((share * q3 + (1 - share) * q4) @ a + b).softmax(1)
            for q3, q4 in zip(*outside, strict=True)
        ]
        p = torch.stack(answers).mean(0)
        truth = task.query_labels
        right = 100 * (p.argmax(1) == truth).float().mean().item()
        likelihood = p[torch.arange(len(truth)), truth].clamp_min(1e-9)
        results[share, strength] = (right, -likelihood.log().mean().item())
        first = slice(0, len(labels))
        scores[share, strength] = held_out_score(kernel[first, first], labels, way, strength)
    return results, scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=60)
    chosen = parser.parse_args()
    method = anyshot.load("cifar-fs")
    torch.set_grad_enabled(False)
    found: dict[str, dict[str, np.ndarray]] = {}
    for images in SETS:
        stream = anyshot.TaskStream(
            anyshot.open_images(images), "validation", anyshot.TaskSettings(), 7
        )
        table: dict[str, list] = {}
        for index in range(chosen.tasks):
            results, scores = measure_task(method, stream.task(index))
            for (share, strength), values in results.items():
                table.setdefault(f"layer 3 share {share:g}, C = {strength:g}", []).append(values)
            best = max(scores, key=lambda key: scores[key])
            table.setdefault("chosen by the task", []).append(results[best])
        found[images] = {name: np.array(values) for name, values in table.items()}
    write(chosen.out, found)


def write(out: Path, found: dict[str, dict[str, np.ndarray]]) -> None:
    """Means of all rows, and the paired gain of the task's choice over each constant."""
    rows = []
    for name in found[SETS[0]]:
        row: dict = {"choice": name}
        for images in SETS:
            values = found[images][name]
            gain = found[images]["chosen by the task"] - values
            half = 1.96 * gain.std(0, ddof=1) / len(gain) ** 0.5
            row[images] = {
                "accuracy": values[:, 0].mean(),
                "nll": values[:, 1].mean(),
                "task's choice ahead by": gain[:, 0].mean(),
                "interval": half[0],
            }
        rows.append(row)
        print(name, {s: (round(row[s]["accuracy"], 2), round(row[s]["nll"], 3)) for s in SETS})
    out.parent.mkdir(parents=True, exist_ok=True)
    tasks = len(next(iter(found[SETS[0]].values())))
    out.write_text(json.dumps({"tasks": tasks, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
