"""Batch norm with training statistics that can be differentiated any number of times.

Third derivatives of torch's own batch norm are wrong: its double backward treats the saved mean and
variance as constants. Here forward, backward and double backward are torch's, with the same bits.
Where the double backward is itself to be differentiated (``create_graph``), it is recomputed with
plain arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten


def batch_norm(y: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float) -> Tensor:
    """scale · x̂ + shift for y [n, channels, …], with the statistics of y itself."""
    if torch._C._are_functorch_transforms_active():  # custom functions do not work there
        return batch_norm_by_arithmetic(y, scale, shift, eps, len(y))
    if not (torch.is_grad_enabled() and y.requires_grad) or y.numel() == y.shape[1]:
        return F.batch_norm(y, None, None, scale, shift, training=True, eps=eps)
    return _BatchNorm.apply(y, scale, shift, eps)


def batch_norm_by_arithmetic(
    y: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float, reference_size: int
) -> Tensor:
    """The same by plain arithmetic, with the statistics of the first ``reference_size`` of y."""
    others = [d for d in range(y.dim()) if d != 1]
    variance, mean = torch.var_mean(y[:reference_size], others, correction=0, keepdim=True)
    xhat = (y - mean) * (variance + eps).rsqrt()
    xhat = xhat if scale is None else xhat * scale.view_as(mean)
    return xhat if shift is None else xhat + shift.view_as(mean)


class _BatchNorm(torch.autograd.Function):
    """y, scale, shift → z."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float
    ) -> Tensor:
        z, mean, deviation = aten.native_batch_norm(y, scale, shift, None, None, True, 0.0, eps)
        ctx.save_for_backward(y, scale, mean, deviation)
        ctx.eps = eps
        return z

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        y, scale, mean, deviation = ctx.saved_tensors
        needed = tuple(ctx.needs_input_grad[:3])
        return (*_Backward.apply(dz, y, scale, mean, deviation, ctx.eps, needed), None)


class _Backward(torch.autograd.Function):
    """dz, y, scale → dy, dscale, dshift."""

    @staticmethod
    def forward(
        ctx: Any,
        dz: Tensor,
        y: Tensor,
        scale: Tensor | None,
        mean: Tensor,
        deviation: Tensor,
        eps: float,
        needed: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(dz, y, scale, mean, deviation)
        ctx.eps, ctx.needed = eps, needed
        return _torch_backward(dz, y, scale, mean, deviation, eps, needed)

    @staticmethod
    def backward(ctx: Any, *v: Tensor | None) -> tuple[Tensor | None, ...]:
        dz, y, scale, mean, deviation = ctx.saved_tensors
        graph = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = [_leaf(t, graph) for t in (dz, y) + (() if scale is None else (scale,))]
            dz, y, *rest = inputs
            scale = rest[0] if rest else None
            # torch's double backward fails for a cotangent of dshift without a scale
            if graph or (scale is None and v[2] is not None):
                outputs = _differentiable_backward(dz, y, scale, ctx.eps)
            else:
                outputs = _torch_backward(dz, y, scale, mean, deviation, ctx.eps, ctx.needed)
            both = zip(outputs, v, strict=True)
            pairs = [(o, d) for o, d in both if o is not None and d is not None]
            gradients = torch.autograd.grad(
                [output for output, _ in pairs],
                inputs,
                [d for _, d in pairs],
                create_graph=graph,
                allow_unused=True,
            )
        return (*gradients, *[None] * (7 - len(gradients)))


def _leaf(t: Tensor, graph: bool) -> Tensor:
    """A tensor to differentiate with respect to; a view of t if the result needs a graph."""
    return t.view_as(t) if graph and t.requires_grad else t.detach().requires_grad_()


def _torch_backward(
    dz: Tensor,
    y: Tensor,
    scale: Tensor | None,
    mean: Tensor,
    deviation: Tensor,
    eps: float,
    needed: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    gradients = aten.native_batch_norm_backward(
        dz, y, scale, None, None, mean, deviation, True, eps, list(needed)
    )
    return tuple(g if is_needed else None for g, is_needed in zip(gradients, needed, strict=True))


def _differentiable_backward(
    dz: Tensor, y: Tensor, scale: Tensor | None, eps: float
) -> tuple[Tensor | None, ...]:
    shift = y.new_zeros(y.shape[1]).requires_grad_()
    z = batch_norm_by_arithmetic(y, scale, shift, eps, len(y))
    inputs = [y, shift] if scale is None else [y, shift, scale]
    dy, dshift, *rest = torch.autograd.grad(z, inputs, dz, create_graph=True)
    return dy, rest[0] if rest else None, dshift
