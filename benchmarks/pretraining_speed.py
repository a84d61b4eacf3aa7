"""A pre-training step against a hand-written PyTorch loop, in one interleaved run.

    python benchmarks/pretraining_speed.py

Both take the same uint8 images, augment them (flips and shifts), convert them to floats, and take a
step of SGD with Nesterov momentum on Conv4 and a linear layer. The loop runs in each of its modes:
both memory formats, the whole batch with all threads or, as anyshot does, two halves in parallel.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.parallel.threads import cores, map_tasks
from anyshot.core.random import numpy_rng
from anyshot.core.settings import MethodSettings, PretrainSettings, Settings
from anyshot.data import ImageSet
from anyshot.experiments.engine_benchmark import describe_machine
from anyshot.experiments.engine_benchmark.measure import FORMATS
from anyshot.models.norm import EPS
from anyshot.runs.run import Run
from anyshot.training.pretraining import Pretraining, one_cycle

CLASSES, IMAGES = 64, 20


def run_benchmark(
    batch: int = 128,
    size: int = 32,
    rounds: int = 5,
    steps: int = 10,
    advance: Callable[..., None] = lambda n=1: None,
) -> dict[str, Any]:
    """Images per second and per CPU second of our step, and of the loop in each of its modes."""
    settings = Settings(
        method=MethodSettings(name="protonet"),
        pretrain=PretrainSettings(batch=batch, rate=0.01),
    )
    with tempfile.TemporaryDirectory() as folder:
        ours = Pretraining(Run.open_or_create(folder, settings, (size, size)), [noise_images(size)])
        contestants: dict[str, Callable[[np.ndarray, int], float]] = {
            "ours": lambda rows, i: ours.train_batch(rows, i)[0]
        }
        for layout in FORMATS:
            contestants[f"torch, {layout}"] = TorchLoop(ours, layout, 1).step
            contestants[f"torch, {layout}, halves"] = TorchLoop(
                ours, layout, ours.settings.parts
            ).step
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        losses: dict[str, float] = {}
        for done in range(rounds + 1):  # the first round is a warm-up
            for name, step in contestants.items():
                wall, cpu = time.perf_counter(), time.process_time()
                for i in range(done * steps, (done + 1) * steps):
                    losses[name] = step(
                        numpy_rng(0, i).choice(len(ours.images), batch, replace=False), i
                    )
                if done:
                    seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
                advance(1)
    return {
        "machine": describe_machine(), "batch": batch, "image_size": size, "rounds": rounds,
        "steps": steps,
        **_summary(seconds, losses, batch * steps),
    }  # fmt: skip


def _summary(
    seconds: dict[str, list[tuple[float, float]]], losses: dict[str, float], images: int
) -> dict[str, Any]:
    rates = {
        name: {
            "images_per_second": images / median(wall),
            "images_per_processor_second": images / median(cpu),
        }
        for name, (wall, cpu) in (
            (name, zip(*pairs, strict=True)) for name, pairs in seconds.items()
        )
    }
    ours, *loops = rates.values()
    best = {key: max(rate[key] for rate in loops) for key in ours}
    return {
        "contestants": {name: {**rate, "loss": losses[name]} for name, rate in rates.items()},
        "speedup": {key: ours[key] / best[key] for key in ours},
    }


def noise_images(size: int, classes: int = CLASSES, images: int = IMAGES) -> ImageSet:
    """Images of random noise."""
    rng = numpy_rng(0, "bench")
    arrays = {
        f"{c}": rng.integers(0, 256, (images, size, size, 3), np.uint8) for c in range(classes)
    }
    return ImageSet.from_arrays("noise", arrays, {"train": list(arrays)})


class TorchLoop:
    """The PyTorch loop, with the same initial parameters and images."""

    def __init__(self, ours: Pretraining, layout: str, parts: int) -> None:
        self.images = ours.images
        self.layout = FORMATS[layout]
        self.parts = parts
        self.steps = ours.total * ours.batches
        state, s = ours.method.state_dict(), ours.settings
        self.rate = s.rate
        self.weights = [
            self._leaf(state[f"theta.{layer.weight}"]) for layer in ours.method.body.layers
        ]
        self.shifts = [self._leaf(shift) for shift in ours.method.shift]
        self.layer = [self._leaf(t) for t in ours.layer]
        self.parameters = [*self.weights, *self.shifts, *self.layer]
        self.optimiser = torch.optim.SGD(
            self.parameters, s.rate, s.momentum, weight_decay=s.weight_decay, nesterov=True
        )

    def _leaf(self, value: Tensor) -> Tensor:
        copy = value.detach().clone()
        return (
            copy.contiguous(memory_format=self.layout) if copy.dim() == 4 else copy
        ).requires_grad_()

    def step(self, rows: np.ndarray, number: int) -> float:
        """One step on the images of these rows; returns its loss."""
        parts = [
            (part, numpy_rng(0, "warm", 0, number, i))
            for i, part in enumerate(np.split(rows, self.parts))
        ]
        if self.parts > 1:
            results = map_tasks(lambda part: self.part(*part), parts)
        else:
            torch.set_num_threads(cores())
            results = [self.part(*parts[0])]
            torch.set_num_threads(1)
        for parameter, *gradients in zip(self.parameters, *(g for g, _ in results), strict=True):
            parameter.grad = sum(gradients[1:], gradients[0])
        self.optimiser.param_groups[0]["lr"] = self.rate * one_cycle(number / self.steps)
        self.optimiser.step()
        return sum(loss for _, loss in results)

    def part(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[tuple[Tensor, ...], float]:
        """Gradients and loss of a part, as shares of the batch's."""
        uint8, labels = self.images.load_batch(rows, rng)
        x = (torch.from_numpy(uint8).permute(0, 3, 1, 2).float() / 255).contiguous(
            memory_format=self.layout
        )
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            y = F.batch_norm(
                F.conv2d(x, weight, padding=1), None, None, None, shift, training=True, eps=EPS
            )
            x = F.max_pool2d(F.relu(y), 2)
        loss = (
            F.cross_entropy(F.linear(x.flatten(1), *self.layer), torch.from_numpy(labels))
            / self.parts
        )
        return torch.autograd.grad(loss, self.parameters), loss.item()


if __name__ == "__main__":
    print(json.dumps(run_benchmark(), indent=2))
