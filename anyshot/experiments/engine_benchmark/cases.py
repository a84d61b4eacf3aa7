"""What is measured: seeded any-shot tasks; every input of the update rule needs a gradient."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.random import numpy_rng, torch_rng
from anyshot.core.settings import MethodSettings
from anyshot.data import tasks
from anyshot.data.shots import any_shot
from anyshot.experiments.engine_benchmark.networks import NETWORKS
from anyshot.inner_loop import InnerProblem
from anyshot.methods import Method, create_method
from anyshot.models.bodies.conv4 import conv4
from anyshot.models.network import HEAD_PARAMETERS, zero_head

WAY, QUERY, STEPS, RATE = 5, 75, 5, 0.01


@dataclass(frozen=True)
class Case:
    """One measurement: a meta-iteration (order 2 or 1) or an adaptation (order 0)."""

    name: str
    size: int  #: of the images
    supports: tuple[int, ...]  #: images of each task's support set
    order: int = 2
    steps: int = STEPS
    channels: int = 32  #: of the body
    method: str = ""  #: a method with its own update rule; empty: θ − A ∘ g
    network: str = ""  #: of ``networks.NETWORKS``, for the contestants on any network
    contestants: tuple[str, ...] = ()  #: by name; empty: all
    memory: bool = True  #: measure it, too, in a process for each contestant

    @property
    def adaptation_only(self) -> bool:
        """Whether only θ_K is computed."""
        return self.order == 0


def sample_support_sizes(tasks: int, seed: int = 0) -> tuple[int, ...]:
    """Support sizes of any-shot tasks, five classes of 1 to 50 images: 127 on average."""
    return tuple(int(any_shot(numpy_rng(seed, "bench", i), WAY, 1, 50).sum()) for i in range(tasks))


def standard_cases(quick: bool = False) -> list[Case]:
    """The cases of ``anyshot bench``; ``quick``: only the first, with small tasks."""
    meta_batch = sample_support_sizes(4)
    if quick:
        return [Case("32×32 any-shot", 32, (20, 30), steps=3)]
    ours = ("engine", "autograd")
    return [
        Case("32×32 any-shot", 32, meta_batch),
        Case("32×32 first-order", 32, meta_batch, order=1, memory=False),
        Case("32×32 adaptation", 32, meta_batch, order=0, steps=10, memory=False),
        Case("84×84", 84, (30,)),
        Case("MT-net", 32, meta_batch[:2], method="mt-net", contestants=ours, memory=False),
        Case("ABML", 32, meta_batch[:2], method="abml", contestants=ours, memory=False),
        Case("Conv4-64", 32, (100,), channels=64, contestants=ours, memory=False),
    ]


def network_cases(quick: bool = False) -> list[Case]:
    """5-way 5-shot tasks for the contestants on any network."""
    if quick:
        return [Case(name, 32, (5,), steps=2, channels=8, network=name) for name in NETWORKS]
    return [Case(name, 32, (25,), network=name) for name in NETWORKS]


@dataclass(frozen=True)
class Task:
    """An inner problem, its query set and the tensors whose gradients are computed."""

    inner: InnerProblem
    images: Tensor
    labels: Tensor
    leaves: list[Tensor]

    def __len__(self) -> int:
        return len(self.inner.labels)

    def with_memory_format(self, memory_format: torch.memory_format) -> Task:
        """The task with images in another memory format."""
        images = self.inner.images.contiguous(memory_format=memory_format)
        inner = replace(self.inner, images=images)
        return replace(
            self, inner=inner, images=self.images.contiguous(memory_format=memory_format)
        )


@dataclass(frozen=True)
class MethodTask:
    """A method and a task; the method chooses the memory format itself."""

    method: Method
    task: tasks.Task

    def __len__(self) -> int:
        return len(self.task)

    def with_memory_format(self, memory_format: torch.memory_format) -> MethodTask:
        """The task itself."""
        return self


@dataclass(frozen=True)
class NetworkTask:
    """A network, a support and a query set."""

    network: nn.Module
    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor
    steps: int

    def __len__(self) -> int:
        return len(self.support)

    def with_memory_format(self, memory_format: torch.memory_format) -> NetworkTask:
        """The task with images and weights in another memory format."""
        network = copy.deepcopy(self.network).to(memory_format=memory_format)  # type: ignore[call-overload]
        support, query = (
            images.contiguous(memory_format=memory_format) for images in (self.support, self.query)
        )
        return replace(self, network=network, support=support, query=query)


def make_tasks(case: Case, seed: int = 0) -> list[Task] | list[MethodTask] | list[NetworkTask]:
    """The tasks of a case."""
    if case.network:
        return make_network_tasks(case, seed)
    return _make_method_tasks(case, seed) if case.method else make_inner_tasks(case, seed)


def make_inner_tasks(case: Case, seed: int = 0) -> list[Task]:
    """Tasks with one network and one step size for each element of a parameter."""
    rng, body = torch_rng(seed, "bench", case.size), conv4((case.size, case.size), case.channels)
    theta, norm = (
        body.init_parameters(rng, "he") | zero_head(WAY, body.width, torch.zeros(())),
        body.norm(),
    )
    rates = {name: torch.full_like(value, RATE) for name, value in theta.items()}
    rates |= {name: rates[name][:1].clone() for name in HEAD_PARAMETERS}  # shared by the classes
    leaves = [
        t for name, t in theta.items() if name.endswith("weight") and name not in HEAD_PARAMETERS
    ]
    leaves += [
        t for name, t in rates.items() if "bias" not in name or name in HEAD_PARAMETERS
    ] + list(norm.shift)
    for leaf in leaves:
        leaf.requires_grad_(not case.adaptation_only)
    inner_tasks = []
    for images, labels, queries, query_labels in _sample_sets(case, rng):
        weights = torch.full((len(labels),), 1 / len(labels))
        inner = InnerProblem(
            images=images,
            labels=labels,
            weights=weights,
            theta=theta,
            rates=rates,
            norm=norm,
            steps=case.steps,
        )
        inner_tasks.append(Task(inner, queries, query_labels, leaves))
    return inner_tasks


def _make_method_tasks(case: Case, seed: int) -> list[MethodTask]:
    """Tasks with an untrained method; He initialisation, so that its steps change the loss."""
    settings = MethodSettings(
        name=case.method,
        channels=case.channels,
        steps=case.steps,
        order=case.order,
        start="he",
        alpha=0.05,
    )
    method = create_method(settings, (case.size, case.size), seed)
    method_tasks = []
    for i, (images, labels, queries, query_labels) in enumerate(
        _sample_sets(case, torch_rng(seed, "bench", case.size))
    ):
        support, query = (
            x.mul(255).byte().permute(0, 2, 3, 1).contiguous() for x in (images, queries)
        )
        method_tasks.append(
            MethodTask(
                method, tasks.Task(support, labels, query, query_labels, seed=(seed, "bench", i))
            )
        )
    return method_tasks


def make_network_tasks(case: Case, seed: int = 0) -> list[NetworkTask]:
    """Tasks that share one network in training mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = NETWORKS[case.network](WAY, case.size, case.channels)
    rng = torch_rng(seed, "bench", case.size)
    return [NetworkTask(network, *sets, case.steps) for sets in _sample_sets(case, rng)]


def _sample_sets(
    case: Case, rng: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Support and query sets of noisy images of random prototypes, with their labels."""

    def draw(labels: Tensor, prototypes: Tensor) -> Tensor:
        noise = torch.randn(len(labels), 3, case.size, case.size, generator=rng)
        return (prototypes[labels] + 0.3 * noise).clamp(0, 1)

    for n in case.supports:
        coarse = torch.rand(WAY, 3, 8, 8, generator=rng)
        prototypes = F.interpolate(coarse, size=(case.size, case.size), mode="bilinear")
        labels, query = torch.arange(n) % WAY, torch.arange(QUERY) % WAY
        yield draw(labels, prototypes), labels, draw(query, prototypes), query
