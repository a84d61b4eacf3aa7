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
        return F.gelu(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _GeluGradient.apply(g, *ctx.saved_tensors)


class _GeluGradient(torch.autograd.Function):
    """g (Φ(x) + x φ(x)), whose derivative by x is g φ(x) (2 − x²)."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return aten.gelu_backward(g, x)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor]:
        g, x = ctx.saved_tensors
        scale = 1 / math.sqrt(2 * math.pi)
        if torch.is_grad_enabled():
            density = (-0.5 * x.square()).exp() * scale
            return _GeluGradient.apply(u, x), u * g * density * (2 - x.square())
        square = x * x
        dx = (square * -0.5).exp_().mul_(square.sub_(2)).mul_(g).mul_(u).mul_(-scale)
        return aten.gelu_backward(u, x), dx


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
    return torch.softmax((query * scale) @ key.transpose(-2, -1), -1) @ value
