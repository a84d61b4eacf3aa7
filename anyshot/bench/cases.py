"""What is measured: seeded tasks of the real distribution; every input of the update rule asks for its gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.bodies.conv4 import conv4
from anyshot.inner import Inner
from anyshot.network import HEAD, zero_head
from anyshot.tasks import any_shot, numpy_rng, torch_rng

WAY, QUERY, STEPS, RATE = 5, 75, 5, 0.01


@dataclass(frozen=True)
class Case:
    """One thing to measure: a meta-iteration (order 2 or 1) or an adaptation without meta-gradients (order 0)."""

    name: str
    size: int  #: of the images
    supports: tuple[int, ...]  #: images of each task's support set
    order: int = 2
    steps: int = STEPS

    @property
    def adaptation(self) -> bool:
        """Whether nothing but θ_K is asked for."""
        return self.order == 0


def any_shot_supports(tasks: int, seed: int = 0) -> tuple[int, ...]:
    """Support sizes of any-shot tasks, five classes of 1 to 50 images: 127 on average."""
    return tuple(int(any_shot(numpy_rng(seed, "bench", i), WAY, 1, 50).sum()) for i in range(tasks))


def standard_cases(quick: bool = False) -> list[Case]:
    """What ``anyshot bench`` measures; ``quick`` keeps the first with small tasks."""
    meta_batch = any_shot_supports(4)
    if quick:
        return [Case("32×32 any-shot", 32, (20, 30), steps=3)]
    return [
        Case("32×32 any-shot", 32, meta_batch),
        Case("32×32 first-order", 32, meta_batch, order=1),
        Case("32×32 adaptation", 32, meta_batch, order=0, steps=10),
        Case("84×84", 84, (30,)),
    ]


@dataclass(frozen=True)
class Task:
    """An inner problem, its query set and the tensors whose gradients are wanted."""

    inner: Inner
    images: Tensor
    labels: Tensor
    leaves: list[Tensor]

    def laid_out(self, memory_format: torch.memory_format) -> Task:
        """The same with images in another memory format."""
        images = self.inner.images.contiguous(memory_format=memory_format)
        inner = replace(self.inner, images=images)
        return replace(self, inner=inner, images=self.images.contiguous(memory_format=memory_format))


def tasks_of(case: Case, seed: int = 0) -> list[Task]:
    """The tasks of a case: noisy pictures of random prototypes, one network, one rate for each parameter element."""
    rng = torch_rng(seed, "bench", case.size)
    body = conv4((case.size, case.size))
    theta, norm = body.start(rng, "he") | zero_head(WAY, body.width, torch.zeros(())), body.norm()
    rates = {name: torch.full_like(value, RATE) for name, value in theta.items()}
    rates |= {name: rates[name][:1].clone() for name in HEAD}  # shared by the classes
    leaves = [t for name, t in theta.items() if name.endswith("weight") and name not in HEAD]
    leaves += [t for name, t in rates.items() if "bias" not in name or name in HEAD] + list(norm.shift)
    for leaf in leaves:
        leaf.requires_grad_(not case.adaptation)

    def pictures(labels: Tensor, prototypes: Tensor) -> Tensor:
        noise = torch.randn(len(labels), 3, case.size, case.size, generator=rng)
        return (prototypes[labels] + 0.3 * noise).clamp(0, 1)

    tasks = []
    for n in case.supports:
        coarse = torch.rand(WAY, 3, 8, 8, generator=rng)
        prototypes = F.interpolate(coarse, size=(case.size, case.size), mode="bilinear")
        labels, query = torch.arange(n) % WAY, torch.arange(QUERY) % WAY
        inner = Inner(pictures(labels, prototypes), labels, torch.full((n,), 1 / n), theta, rates, norm, case.steps)
        tasks.append(Task(inner, pictures(query, prototypes), query, leaves))
    return tasks
