"""GELU, and attention by plain operators."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten


class _Gelu(torch.autograd.Function):
    """x Φ(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = None
        return F.gelu(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        [x] = ctx.saved_tensors
        if ctx.slope is not None and not torch.is_grad_enabled():
            return g * ctx.slope
        if not torch.is_grad_enabled():
            return aten.gelu_backward(g, x)
        if ctx.slope is None:  # it is needed three times
            ctx.slope = aten.gelu_backward(torch.ones_like(x), x.detach())
        return _GeluGradient.apply(g, x, ctx.slope)


class _GeluGradient(torch.autograd.Function):
    """g s with the slope s = Φ(x) + x φ(x), whose derivative by x is φ(x) (2 − x²)."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(g, x, slope)
        return g * slope

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor, None]:
        g, x, slope = ctx.saved_tensors
        scale = 1 / math.sqrt(2 * math.pi)
        if torch.is_grad_enabled():
            density = (-0.5 * x.square()).exp() * scale
            dx = u * g * density * (2 - x.square())
            return _GeluGradient.apply(u, x, slope), dx, None
        square = x * x
        dx = (square * -0.5).exp_().mul_(square.sub_(2)).mul_(g).mul_(u).mul_(-scale)
        return u * slope, dx, None


def gelu(input: Tensor, approximate: str = "none") -> Any:
    """``F.gelu``."""
    return _Gelu.apply(input) if approximate == "none" else NotImplemented


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``F.scaled_dot_product_attention`` without mask and dropout."""
    if attn_mask is not None or dropout_p or is_causal or enable_gqa:
        return NotImplemented
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if query.dim() < 3 or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        return torch.softmax((query * scale) @ key.transpose(-2, -1), -1) @ value
    q, k, v = (t.flatten(0, -3) for t in (query, key, value))  # matmul would copy them more often
    scores = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=scale)
    return torch.softmax(scores, -1).bmm(v).view(*query.shape[:-1], value.shape[-1])
