"""The engine's form of the parameters, and what it cannot compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from anyshot.core.parallel.threads import single_task_threads
from anyshot.inner_loop.autograd import autocast_active, transforms_active
from anyshot.inner_loop.engine.backend import choose_backend
from anyshot.inner_loop.engine.image_cache import image_patches
from anyshot.inner_loop.engine.network import Body, Net
from anyshot.inner_loop.engine.torch_ops import CHANNELS_LAST
from anyshot.models.bodies import conv4
from anyshot.models.bodies.conv4 import CONV_WEIGHTS, LAYERS
from anyshot.models.network import HEAD_PARAMETERS, Features, Norm, Parameters
from anyshot.models.stored_norm import StoredNorm

#: the parameters that the engine differentiates, in order; convolution biases cancel
NAMES = CONV_WEIGHTS + HEAD_PARAMETERS


def unsupported_reason(
    body: Features, theta: Parameters, norm: Norm, images: Sequence[Tensor], *others: Tensor
) -> str | None:
    """Why the engine cannot compute this for these sets of images; None if it can."""
    x = images[0]
    if transforms_active():
        return "a torch.func transform (grad, vmap, jvp …) is active"
    if autocast_active(x.device):
        return "autocast is active"
    if body is not conv4.features:
        return "the body is not Conv4"
    if type(norm) is StoredNorm:
        if torch.is_grad_enabled():
            return "derivatives with stored statistics are needed"
    elif type(norm) is not Norm:
        return f"the normalisation is of the class {type(norm).__name__}, not Norm"
    if norm.reference_size is not None:
        return "batch statistics of the first images of a set (reference_size)"
    if any(theta[name].shape[2:] != (3, 3) for name in CONV_WEIGHTS):
        return "a convolution is not 3×3"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the images are {x.dtype}"
    if any(t.dtype != x.dtype for t in (*images, *theta.values(), *norm.shift, *others)):
        return "images, parameters and weights have different types"
    if any(t.requires_grad for t in images):
        return "a gradient with respect to images is needed"
    if min(x.shape[2:]) < 2**LAYERS:
        return f"images of {x.shape[2]}×{x.shape[3]} pixels are too small for {LAYERS} poolings"
    return None


@dataclass
class EngineParameters:
    """θ, β and s as the engine takes them: detached, ordered, channels-last, scales positive.

    Pooling commutes only with positive slopes. So a negative scale is made positive by a flip of
    the weights' signs: s x̂(W) = |s| x̂(−W).
    """

    theta: list[Tensor]  #: W1..W4 and, if there is one, the head
    shift: list[Tensor]
    scale: list[Tensor]
    sign: list[Tensor] | None  #: ±1 per channel, shaped like a weight; None without scales
    ops: ModuleType  #: :mod:`.torch_ops` or :mod:`.numba_ops`
    stored: list[tuple[Tensor, Tensor]] | None = None  #: mean and variance of each layer

    @staticmethod
    def from_parameters(theta: Parameters, norm: Norm) -> EngineParameters:
        """Convert parameters and normalisation."""
        shift = [t.detach() for t in norm.shift]
        sign = None
        if norm.scale is None:
            scale = [torch.ones_like(t) for t in shift]
        else:
            scale = [t.detach().abs() for t in norm.scale]
            sign = [torch.where(t < 0, -1.0, 1.0).to(t.dtype).view(-1, 1, 1, 1) for t in norm.scale]
        values = _flip_signs([theta[name].detach() for name in NAMES if name in theta], sign)
        weights = [t.contiguous(memory_format=CHANNELS_LAST) for t in values[:LAYERS]]
        stored = None
        if isinstance(norm, StoredNorm):
            stored = list(norm.statistics)
            if sign is not None:  # the mean of y = W * x changes its sign with W
                stored = [(m * s.flatten(), v) for (m, v), s in zip(stored, sign, strict=True)]
        ops = choose_backend(weights)
        return EngineParameters(weights + values[LAYERS:], shift, scale, sign, ops, stored)

    @single_task_threads()
    def forward_body(self, x: Tensor, centre: bool, reference: Tensor | None = None) -> Body:
        """Run the blocks, up to the features."""
        return Body(*self._body_arguments(x, centre, reference))

    @single_task_threads()
    def forward_net(self, x: Tensor, centre: bool, reference: Tensor | None = None) -> Net:
        """Run the network, up to the logits."""
        return Net(self.theta[LAYERS:], *self._body_arguments(x, centre, reference))

    def _body_arguments(self, x: Tensor, centre: bool, reference: Tensor | None) -> tuple[Any, ...]:
        source = None if reference is None else self.forward_body(reference, centre)
        patches = image_patches(self.ops, x)
        blocks = self.theta[:LAYERS], self.shift, self.scale
        return self.ops, *blocks, centre, patches, source, self.stored

    def flip_signs(self, tensors: list[Tensor]) -> list[Tensor]:
        """Flip weights (or their gradients) where the scale is negative; its own inverse."""
        return _flip_signs(tensors, self.sign)

    def to_caller(
        self, dtheta: list[Tensor], dshift: list[Tensor], dscale: list[Tensor]
    ) -> list[Tensor]:
        """Gradients with respect to the caller's parameters, in the order of :func:`inputs_of`."""
        if self.sign is None:
            return [*dtheta, *dshift]
        flipped = [d * s.flatten() for d, s in zip(dscale, self.sign, strict=True)]
        return [*self.flip_signs(dtheta), *dshift, *flipped]


def _flip_signs(tensors: list[Tensor], sign: list[Tensor] | None) -> list[Tensor]:
    if sign is None:
        return tensors
    return [t * s for t, s in zip(tensors, sign, strict=False)] + tensors[LAYERS:]


def inputs_of(theta: Parameters, norm: Norm, names: Sequence[str] = NAMES) -> list[Tensor]:
    """What the engine's functions depend on: θ, β and s."""
    return [*(theta[name] for name in names), *norm.shift, *(norm.scale or ())]
