"""A module as a pure function (θ, norm, images) → features that any number of threads may call.

Parameters and buffers are arguments of a call: the module's own are never used. Its batch norms
follow the rule of all bodies: the statistics of the batch, or of its first images. Its dropout
draws from the seed of the call; without a seed the module is in evaluation mode.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from anyshot.core.errors import CodeError
from anyshot.models.batch_norm import batch_norm, batch_norm_by_arithmetic
from anyshot.models.layer_calls import LAYER_NAME
from anyshot.models.math_attention import math_attention
from anyshot.models.network import Norm, Parameters
from anyshot.models.seeded_random import SeededRandom

BATCH_NORMS = (_BatchNorm.forward, nn.SyncBatchNorm.forward)


def parameter_key(name: str) -> str:
    """The name in θ of a module's parameter: torch's dictionaries of parameters allow no dots.

    >>> parameter_key("blocks.0.weight")
    'module/blocks/0/weight'
    """
    return "module/" + name.replace(".", "/")


@dataclass
class Worker:
    """A copy of the module that one thread uses at a time, and what its batch norms need."""

    module: nn.Module
    images: int = 0
    reference_size: int | None = None

    def __post_init__(self) -> None:
        for layer in self.module.modules():
            if is_batch_norm(layer):
                layer.forward = functools.partial(self.normalise, layer)

    def normalise(self, layer: Any, y: Tensor) -> Tensor:
        """The forward pass of a batch norm."""
        layer._check_input_dim(y)
        if self.reference_size is None:
            return batch_norm(y, layer.weight, layer.bias, layer.eps)
        rows, rest = divmod(len(y), self.images)  # of y for each image
        if rest:
            raise CodeError(
                f"The batch norm {getattr(layer, LAYER_NAME)} gets {len(y)} rows for "
                f"{self.images} images; without --transductive every image needs as many rows."
            )
        count = rows * self.reference_size
        return batch_norm_by_arithmetic(y, layer.weight, layer.bias, layer.eps, count)


def is_batch_norm(layer: nn.Module) -> bool:
    """Whether a layer is one of torch's batch norms, with torch's forward pass."""
    return type(layer).forward in BATCH_NORMS


@dataclass(eq=False)
class ModuleFeatures:
    """The function (θ, norm, images [n, channels, height, width]) → features [n, width].

    θ has a value for each parameter of the module, ``norm.constants`` one for each buffer and
    frozen parameter, by the names of :func:`parameter_key`.
    """

    template: nn.Module  #: without data, on torch's device "meta"
    parameters: dict[str, str]  #: name in θ → name in the module
    constants: dict[str, str]  #: name in ``norm.constants`` → name in the module
    draws_random_numbers: bool = True  #: in training mode
    #: workers that no thread uses, in training mode and in evaluation mode
    free: dict[bool, deque[Worker]] = field(
        default_factory=lambda: {True: deque(), False: deque()}, repr=False
    )

    def __call__(self, theta: Parameters, norm: Norm, images: Tensor) -> Tensor:
        """Return the features; in training mode if ``norm`` has a seed."""
        tensors = {name: theta[key] for key, name in self.parameters.items()}
        tensors |= {name: norm.constants[key] for key, name in self.constants.items()}
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(self.borrow_worker(norm.seed is not None))
            stack.enter_context(math_attention)
            if norm.seed is not None and self.draws_random_numbers:
                stack.enter_context(SeededRandom(norm.seed))
            worker.images, worker.reference_size = len(images), norm.reference_size
            return call_with_tensors(worker.module, tensors, images)

    @contextlib.contextmanager
    def borrow_worker(self, training: bool) -> Iterator[Worker]:
        """A worker of one's own; ``functional_call`` exchanges the tensors of its module."""
        free = self.free[training]
        try:
            worker = free.pop()
        except IndexError:
            worker = Worker(copy.deepcopy(self.template).train(training))
        try:
            yield worker
        finally:
            free.append(worker)


def module_features(module: nn.Module) -> ModuleFeatures:
    """The features of a module that :func:`anyshot.models.module_checks.check_layers` accepts."""
    template = copy.deepcopy(module)
    for name, layer in template.named_modules():
        kind = type(layer).__name__
        setattr(layer, LAYER_NAME, f"{name} ({kind})" if name else kind)
    unused = {
        f"{name}.{buffer}".lstrip(".")
        for name, layer in template.named_modules()
        if is_batch_norm(layer)
        for buffer, _ in layer.named_buffers()
    }
    learned = [name for name, value in template.named_parameters() if value.requires_grad]
    fixed = [name for name, value in template.named_parameters() if not value.requires_grad]
    fixed += [name for name, _ in template.named_buffers() if name not in unused]
    _drop_data(template)
    return ModuleFeatures(
        template,
        {parameter_key(name): name for name in learned},
        {parameter_key(name): name for name in fixed},
    )


def call_with_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], *inputs: Any, **options: Any
) -> Any:
    """Call a module with other parameters and buffers, also those that layers share.

    ``torch.func.functional_call`` can tie shared ones itself, but if one layer has two names, it
    leaves the given tensors in the module after the call.
    """
    first: dict[int, str] = {}  # the name of a shared tensor
    given = dict(tensors)
    for prefix, layer in module.named_modules():  # each layer once
        for name, value in (*layer._parameters.items(), *layer._buffers.items()):
            if value is not None:
                own = f"{prefix}.{name}" if prefix else name
                known = first.setdefault(id(value), own)
                if known in tensors:
                    given.setdefault(own, tensors[known])
    return functional_call(module, given, inputs, options, tie_weights=False)


def _drop_data(module: nn.Module) -> None:
    """Move a module to the device "meta"; layers that share a parameter share it afterwards."""
    owners: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for layer in module.modules():
        for tensors in (layer._parameters, layer._buffers):
            for name, value in tensors.items():
                if value is not None:
                    owners.setdefault(id(value), []).append((tensors, name))
    module.to(torch.device("meta"))
    for (first, name), *others in owners.values():
        for tensors, other in others:
            tensors[other] = first[name]
