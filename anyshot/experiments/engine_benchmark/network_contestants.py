"""The contestants on any network: ``loss_gradient``, torch.func, ``higher`` and ``torchopt``.

Each takes the inner steps of MAML (SGD with one constant step size), as the documentation of its
library shows it, and returns the query loss and its second-order gradient by the initialisation.
Attention in the inner steps uses plain operators, because torch's fused ones cannot be
differentiated twice; ``loss_gradient`` does this by itself.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyshot.experiments.engine_benchmark.cases import RATE, NetworkTask
from anyshot.experiments.engine_benchmark.libraries import import_without_warnings
from anyshot.inner_loop.functional import call_module, loss_gradient
from anyshot.models.network import Parameters

Result = tuple[Tensor, list[Tensor]]


def by_loss_gradient(task: NetworkTask) -> Result:
    """anyshot."""

    def loss(theta: Parameters, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(call_module(task.network, theta, images), labels)

    start: Parameters = dict(task.network.named_parameters())
    theta = start
    for _ in range(task.steps):
        g, _ = loss_gradient(loss, theta, task.support, task.support_labels)
        theta = {name: value - RATE * g[name] for name, value in theta.items()}
    value = loss(theta, task.query, task.query_labels)
    return value.detach(), list(torch.autograd.grad(value, list(start.values())))


def by_torch_func(task: NetworkTask) -> Result:
    """``torch.func.grad`` of a function that calls ``torch.func.grad`` in each step."""

    def loss(theta: Parameters, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(task.network, theta, (images,)), labels)

    def query_loss(theta: Parameters) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            for _ in range(task.steps):
                g = torch.func.grad(loss)(theta, task.support, task.support_labels)
                theta = {name: value - RATE * g[name] for name, value in theta.items()}
        return loss(theta, task.query, task.query_labels)

    start = {name: value.detach() for name, value in task.network.named_parameters()}
    gradients, value = torch.func.grad_and_value(query_loss)(start)
    return value, list(gradients.values())


def by_higher(task: NetworkTask) -> Result:
    """``higher.innerloop_ctx``."""
    higher = import_without_warnings("higher")
    optimizer = torch.optim.SGD(task.network.parameters(), lr=RATE)
    with higher.innerloop_ctx(task.network, optimizer, copy_initial_weights=False) as (fast, inner):
        with sdpa_kernel(SDPBackend.MATH):
            for _ in range(task.steps):
                inner.step(F.cross_entropy(fast(task.support), task.support_labels))
        value = F.cross_entropy(fast(task.query), task.query_labels)
        start = list(fast.parameters(time=0))
        return value.detach(), list(torch.autograd.grad(value, start))


def by_torchopt(task: NetworkTask) -> Result:
    """``torchopt.MetaSGD``, which replaces the parameters of a module."""
    torchopt = import_without_warnings("torchopt")
    network = copy.deepcopy(task.network)
    start = list(network.parameters())
    optimizer = torchopt.MetaSGD(network, lr=RATE)
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(task.steps):
            optimizer.step(F.cross_entropy(network(task.support), task.support_labels))
    value = F.cross_entropy(network(task.query), task.query_labels)
    return value.detach(), list(torch.autograd.grad(value, start))


NETWORK_CONTESTANTS = {
    "loss_gradient": by_loss_gradient,
    "torch.func": by_torch_func,
    "higher": by_higher,
    "torchopt": by_torchopt,
}
