"""Make a teacher for distillation from a packed body, which has lost its classification layer.

    python benchmarks/distillation_teacher.py docs/results/standard-64/body-64 runs/teacher-64
    anyshot pretrain runs/distilled-64 --preset cifar-fs-5shot --channels 64 --epochs 60 \
        --teacher runs/teacher-64

The layer is logistic regression on the features of two augmented views of each training image, in
random batches of the size that pre-training normalises with. It takes a minute of one core; the
pre-training itself takes 33.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import anyshot
from anyshot.core.random import numpy_rng
from anyshot.runs.checkpoint import Checkpoint
from anyshot.training.pretraining import linear_layer
from anyshot.training.pretraining_images import PretrainingImages


@torch.no_grad()
def features(
    method: anyshot.Method, images: PretrainingImages, batch: int
) -> tuple[Tensor, Tensor]:
    """Features and labels of two augmented views of each training image."""
    rng = numpy_rng(0, "teacher")
    found, labels = [], []
    for _ in range(2):
        order = rng.permutation(len(images))
        for first in range(0, len(images) - batch + 1, batch):
            pixels, y = images.load_batch(order[first : first + batch], rng)
            found.append(method.embed(method.to_input(torch.from_numpy(pixels))))
            labels.append(torch.from_numpy(y))
    return torch.cat(found), torch.cat(labels)


def fit(x: Tensor, y: Tensor, layer: list[Tensor], decay: float) -> float:
    """Logistic regression by L-BFGS; returns the mean loss."""
    optimiser = torch.optim.LBFGS(layer, max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(F.linear(x, *layer), y) + decay / 2 * layer[0].square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return loss().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("teacher", type=Path)
    chosen = parser.parse_args()
    packed = anyshot.Run(chosen.packed)
    settings = packed.settings.pretrain
    method = packed.load_method()
    images = PretrainingImages([packed.imageset(name) for name in packed.settings.images], settings)
    x, y = features(method, images, settings.batch // settings.parts)
    layer = linear_layer(images.classes, method, settings.seed)
    loss = fit(x, y, layer, settings.weight_decay)
    accuracy = float((F.linear(x, *layer).argmax(1) == y).float().mean())
    print(f"loss {loss:.3f}, accuracy on training images {accuracy:.1%}")
    chosen.teacher.mkdir(parents=True)
    shutil.copyfile(chosen.packed / "config.json", chosen.teacher / "run.json")
    run = anyshot.Run(chosen.teacher)
    run.save_best(packed.best())
    weights = {"layer.weight": layer[0].detach(), "layer.bias": layer[1].detach()}
    state = {"epoch": settings.epochs, "teacher": None}
    checkpoint = Checkpoint(state, weights, run.run_id)
    run.save_checkpoint(f"warm-{settings.epochs:07d}", checkpoint)


if __name__ == "__main__":
    main()
