"""The warm start: train the body, with a linear layer on top, to tell all meta-training classes apart.

A body that already sees is what the few inner steps can build on; from the paper's start it takes days to get there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.images import ImageSet
from anyshot.methods import Method
from anyshot.network import embed
from anyshot.progress import progress
from anyshot.tasks import numpy_rng, torch_rng

BATCH, PEAK_RATE, MOMENTUM, WEIGHT_DECAY, SHIFT = 128, 0.2, 0.9, 5e-4, 3


def warm_start(
    method: Method, imagesets: Sequence[ImageSet], epochs: int, seed: int, log: Callable[[dict[str, Any]], None]
) -> None:
    """SGD with Nesterov momentum, one-cycle rate, weight decay; each batch is shifted by up to 3 pixels. No flips: they
    would be wrong for characters."""
    rows = [np.arange(i.starts[c], i.starts[c + 1]) for i in imagesets for c in i.splits["train"]]
    source = np.concatenate([np.full(sum(i.counts[c] for c in i.splits["train"]), k) for k, i in enumerate(imagesets)])
    index, labels = np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    generator = torch_rng(seed, "warm")
    with torch.no_grad():
        for name, value in method.body.start(generator, "he").items():
            method.theta[name].copy_(value)
    features = method.body.width
    weight = (torch.randn(len(rows), features, generator=generator) / features**0.5).to(method.like).requires_grad_()
    bias = method.like.new_zeros(len(rows)).requires_grad_()
    weights = [p for n, p in method.theta.items() if "weight" in n]
    optimiser = torch.optim.SGD(
        [*weights, *method.shift, weight, bias],
        lr=PEAK_RATE, momentum=MOMENTUM, nesterov=True, weight_decay=WEIGHT_DECAY,
    )  # fmt: skip
    batch = min(BATCH, len(index))
    steps = len(index) // batch
    with progress("Warm start", epochs * steps) as advance:
        for epoch in range(epochs):
            rng = numpy_rng(seed, "warm", epoch)
            order, losses, hits = rng.permutation(len(index))[: steps * batch].reshape(steps, batch), 0.0, 0.0
            for step, chosen in enumerate(order):
                for group in optimiser.param_groups:
                    group["lr"] = one_cycle((epoch * steps + step) / (epochs * steps))
                images = torch.empty(batch, *imagesets[0].images.shape[1:], dtype=torch.uint8)
                for k, imageset in enumerate(imagesets):
                    here = source[chosen] == k
                    images[torch.from_numpy(here)] = torch.from_numpy(imageset.images[index[chosen[here]]])
                x, y = shifted(method.images(images), rng), torch.from_numpy(labels[chosen]).to(method.like.device)
                scores = F.linear(embed(method.body.features, dict(method.theta), method.norm, x), weight, bias)
                loss = F.cross_entropy(scores, y)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses += loss.item() / steps
                hits += (scores.argmax(1) == y).float().mean().item() / steps
                advance(1, f"loss {losses * steps / (step + 1):.3f}  accuracy {hits * steps / (step + 1):.1%}")
            log({"kind": "warm", "epoch": epoch + 1, "loss": losses, "accuracy": hits})


def one_cycle(progress: float) -> float:
    """Rises from a 25th of the peak over the first 30 %, then falls to nothing; both by half a cosine."""
    if progress < 0.3:
        return PEAK_RATE * (0.04 + 0.96 * (0.5 - 0.5 * math.cos(math.pi * progress / 0.3)))
    return PEAK_RATE * (0.5 + 0.5 * math.cos(math.pi * (progress - 0.3) / 0.7))


def shifted(images: Tensor, rng: np.random.Generator) -> Tensor:
    """The batch moved by up to 3 pixels each way, edges repeated; one shift a batch is enough and costs nothing."""
    down, right = rng.integers(0, 2 * SHIFT + 1, size=2)
    height, width = images.shape[2:]
    padded = F.pad(images, (SHIFT,) * 4, mode="replicate")
    return padded[:, :, down : down + height, right : right + width]
