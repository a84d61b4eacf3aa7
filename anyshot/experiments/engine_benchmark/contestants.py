"""The contestants: engine, anyshot's autograd path, and the libraries ``higher`` and ``torchopt``.

Each is a function of a task that returns the query loss and its gradients with respect to the
initialisation, the step sizes and β (order 2 or 1). For order 0 it adapts and returns the query
loss alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.experiments.engine_benchmark.cases import RATE, MethodTask, Task
from anyshot.experiments.engine_benchmark.libraries import (
    explain_missing,
    import_without_warnings,
    missing_libraries,
)
from anyshot.inner_loop import adapt, logits_many, query_loss
from anyshot.models.bodies.conv4 import CONV_WEIGHTS
from anyshot.models.network import HEAD_PARAMETERS
from anyshot.models.norm import EPS
from anyshot.training.meta_training import task_gradients

NAMES = CONV_WEIGHTS + HEAD_PARAMETERS

Result = tuple[Tensor, list[Tensor]]
EngineTask = Task | MethodTask
Contestant = Callable[[Any, int], Result]


def by_anyshot(task: EngineTask, order: int, engine: str) -> Result:
    """anyshot, by the engine or by autograd."""
    if isinstance(task, MethodTask):
        method = copy.copy(task.method)  # the same parameters
        method.engine = engine
        gradients, info = task_gradients(method, task.task)
        return torch.tensor(info["loss"]), gradients
    # New tensor objects: what the engine caches for images is part of the work.
    inner = replace(task.inner, images=task.inner.images.detach())
    images = task.images.detach()
    if order == 0:
        scores = logits_many([inner], [adapt(inner, engine)], images, engine)[0]
        return F.cross_entropy(scores, task.labels), []
    loss, _ = query_loss(inner, images, task.labels, order, engine)
    return loss.detach(), list(torch.autograd.grad(loss, task.leaves))


class Conv4(nn.Module):
    """The same network as a module, as users of these libraries write it.

    Convolutions have biases, which the inner loop adapts although they cancel. β is not adapted, so
    it is not a parameter of the module.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.shift = task.inner.norm.shift
        for name, value in task.inner.theta.items():
            setattr(self, name, nn.Parameter(value.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [n, way]."""
        for i, beta in enumerate(self.shift, 1):
            x = F.conv2d(
                x, getattr(self, f"conv{i}_weight"), getattr(self, f"conv{i}_bias"), padding=1
            )
            x = F.max_pool2d(
                F.relu(F.batch_norm(x, None, None, None, beta, training=True, eps=EPS)), 2
            )
        return F.linear(x.flatten(1), getattr(self, "head_weight"), getattr(self, "head_bias"))  # noqa: B009


def _support_loss(model: Callable[[Tensor], Tensor], task: Task) -> Tensor:
    return task.inner.weights @ F.cross_entropy(
        model(task.inner.images), task.inner.labels, reduction="none"
    )


def by_higher(task: Task, order: int) -> Result:
    """``higher``: patched module and differentiable SGD, a parameter group for each step size."""
    higher = import_without_warnings("higher")
    model = Conv4(task)
    names = [name for name, _ in model.named_parameters()]
    optimiser = torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=RATE)
    rates = {"lr": [task.inner.rates[name] for name in names]}
    with higher.innerloop_ctx(
        model, optimiser, copy_initial_weights=False, override=rates, track_higher_grads=order == 2
    ) as (fast, inner):
        for _ in range(task.inner.steps):
            inner.step(_support_loss(fast, task))
        loss = F.cross_entropy(fast(task.images), task.labels)
        if order == 0:
            return loss.detach(), []
        # first order in these libraries: the gradient at θ_K
        start = fast.parameters(time=0 if order == 2 else -1)
        inputs = [p for p, name in zip(start, names, strict=True) if name in CONV_WEIGHTS]
        steps = [task.inner.rates[name] for name in NAMES] if order == 2 else []
        return loss.detach(), list(
            torch.autograd.grad(loss, [*inputs, *steps, *task.inner.norm.shift])
        )


def by_torchopt(task: Task, order: int) -> Result:
    """``torchopt``: differentiable SGD with a single constant step size."""
    torchopt = import_without_warnings("torchopt")
    model = Conv4(task)
    start = dict(model.named_parameters())
    if order == 2:
        optimiser = torchopt.MetaSGD(model, lr=RATE)
        for _ in range(task.inner.steps):
            optimiser.step(_support_loss(model, task))
    else:
        plain = torchopt.SGD(model.parameters(), lr=RATE)
        for _ in range(task.inner.steps):
            plain.zero_grad()
            torch.autograd.backward(_support_loss(model, task), inputs=list(model.parameters()))
            plain.step()
    loss = F.cross_entropy(model(task.images), task.labels)
    if order == 0:
        return loss.detach(), []
    inputs = [start[name] for name in CONV_WEIGHTS]
    return loss.detach(), list(torch.autograd.grad(loss, [*inputs, *task.inner.norm.shift]))


CONTESTANTS: dict[str, Contestant] = {
    "engine": partial(by_anyshot, engine="engine"),
    "autograd": partial(by_anyshot, engine="autograd"),
    "higher": by_higher,
    "torchopt": by_torchopt,
}


def installed_contestants() -> tuple[list[str], list[str]]:
    """The installed contestants, and a message for each missing one."""
    missing = missing_libraries()
    sentences = [explain_missing(name) for name in missing]
    return [name for name in CONTESTANTS if name not in missing], sentences
