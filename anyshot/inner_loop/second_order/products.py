"""Convolutions and linear layers.

Both are bilinear. With T(x, w, g) = ⟨C(x, w), g⟩, every derivative of every order is one of

    C(x, w)  forward,      I(g, w)  gradient of the input,      W(g, x)  gradient of the weight,

and each has a fast kernel. torch computes the second derivatives of a convolution by convolutions
with kernels as large as the image instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop.second_order import winograd
from anyshot.inner_loop.second_order.trace import Product, Trace

aten = torch.ops.aten


class Kernels(Protocol):
    """C, I and W of a layer; ``like`` has the shape of the result."""

    def output(self, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        """C(x, w), plus a bias."""

    def input(self, g: Tensor, w: Tensor, like: Tensor) -> Tensor:
        """I(g, w)."""

    def weight(self, g: Tensor, x: Tensor, like: Tensor) -> Tensor:
        """W(g, x)."""


class Convolution:
    """A convolution's kernels: those of torch, or Winograd's algorithm where it is faster."""

    def __init__(
        self, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ) -> None:
        self.geometry = (stride, padding, dilation, False, [0] * len(stride), groups)
        self.simple = stride == padding == dilation == [1, 1] and groups == 1

    def output(self, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        """C(x, w), plus a bias."""
        if self.simple and winograd.pays(x, w):
            y = winograd.output(x, w)
            return y if bias is None else y.add_(bias.view(-1, 1, 1))
        return aten.convolution(x, w, bias, *self.geometry)

    def input(self, g: Tensor, w: Tensor, like: Tensor) -> Tensor:
        """I(g, w)."""
        if self.simple and winograd.pays(g, w):
            return winograd.input(g, w)
        return self._backward(g, like, w, [True, False, False])[0]

    def weight(self, g: Tensor, x: Tensor, like: Tensor) -> Tensor:
        """W(g, x)."""
        if self.simple and winograd.pays(x, like, tiles=winograd.FEWEST_TILES // 4):
            return winograd.weight(g, x)
        return self._backward(g, x, like, [False, True, False])[1]

    def _backward(self, g: Tensor, x: Tensor, w: Tensor, mask: list[bool]) -> Any:
        return aten.convolution_backward(g, x, w, None, *self.geometry, mask)


class Linear:
    """The kernels of a linear layer on rows x: C = x wᵀ, I = g w, W = gᵀ x."""

    def output(self, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        """C(x, w), plus a bias."""
        return F.linear(x, w, bias)

    def input(self, g: Tensor, w: Tensor, like: Tensor) -> Tensor:
        """I(g, w)."""
        return g @ w

    def weight(self, g: Tensor, x: Tensor, like: Tensor) -> Tensor:
        """W(g, x)."""
        return g.t() @ x


class _Output(torch.autograd.Function):
    """C(x, w) + b."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, kernels: Kernels, product: Product | None
    ) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.kernels, ctx.product = kernels, product
        return _kept(product, "output", lambda: kernels.output(x, w, b))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        need_x, need_w, need_b, *_ = ctx.needs_input_grad
        dx = _Input.apply(g, w, x, ctx.kernels, ctx.product) if need_x else None
        dw = _Weight.apply(g, x, w, ctx.kernels, ctx.product) if need_w else None
        db = g.sum([0, *range(2, g.dim())]) if need_b else None
        return dx, dw, db, None, None


class _Input(torch.autograd.Function):
    """I(g, w)."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, w: Tensor, like: Tensor, kernels: Kernels, product: Product | None
    ) -> Tensor:
        ctx.save_for_backward(g, w)
        ctx.kernels = kernels
        return _kept(product, "input", lambda: kernels.input(g, w, like))

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Any, ...]:
        g, w = ctx.saved_tensors
        need_g, need_w, *_ = ctx.needs_input_grad
        dg = _Output.apply(u, w, None, ctx.kernels, None) if need_g else None
        dw = _Weight.apply(g, u, w, ctx.kernels, None) if need_w else None
        return dg, dw, None, None, None


class _Weight(torch.autograd.Function):
    """W(g, x)."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, like: Tensor, kernels: Kernels, product: Product | None
    ) -> Tensor:
        ctx.save_for_backward(g, x)
        ctx.kernels = kernels
        if product is not None and product.weight_gradient_unused:
            return like.new_zeros(()).expand(like.shape)  # zeros without memory
        return kernels.weight(g, x, like)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Any, ...]:
        g, x = ctx.saved_tensors
        need_g, need_x, *_ = ctx.needs_input_grad
        dg = _Output.apply(x, u, None, ctx.kernels, None) if need_g else None
        dx = _Input.apply(g, u, x, ctx.kernels, None) if need_x else None
        return dg, dx, None, None, None


def _kept(product: Product | None, what: str, compute: Callable[[], Tensor]) -> Tensor:
    return compute() if product is None else product.result(what, compute)


def _convolve(
    dimensions: int,
    trace: Trace,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    if isinstance(padding, str) or input.dim() != dimensions + 2:
        return NotImplemented
    stride, padding, dilation = (
        [value] * dimensions if isinstance(value, int) else list(value) * (dimensions // len(value))
        for value in (stride, padding, dilation)
    )
    kernels = Convolution(stride, padding, dilation, groups)
    return _Output.apply(input, weight, bias, kernels, trace.next_product(weight))


conv1d: Callable[..., Any] = partial(_convolve, 1)
conv2d: Callable[..., Any] = partial(_convolve, 2)
conv3d: Callable[..., Any] = partial(_convolve, 3)


def linear(trace: Trace, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """``F.linear``."""
    if weight.dim() != 2 or input.dim() < 2:
        return NotImplemented
    rows = input.reshape(-1, input.shape[-1])
    y = _Output.apply(rows, weight, bias, Linear(), trace.next_product(weight))
    return y.view(*input.shape[:-1], weight.shape[0])
