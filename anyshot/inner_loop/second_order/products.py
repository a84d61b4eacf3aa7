"""Convolutions and linear layers.

Both are bilinear. With T(x, w, g) = ⟨C(x, w), g⟩, every derivative of every order is one of

    C(x, w)  forward,      I(g, w)  gradient of the input,      W(g, x)  gradient of the weight,

and each has a fast kernel. torch computes the second derivatives of a convolution by convolutions
with kernels as large as the image instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop.second_order import winograd
from anyshot.inner_loop.second_order.trace import Product, Trace

aten = torch.ops.aten
Pair = tuple[Tensor, Tensor]  #: x and w


class Kernels(Protocol):
    """C, I and W of a layer; ``like`` has the shape of the result."""

    def output(self, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        """C(x, w), plus a bias."""

    def input(self, g: Tensor, w: Tensor, like: Tensor) -> Tensor:
        """I(g, w)."""

    def weight(self, g: Tensor, x: Tensor, like: Tensor) -> Tensor:
        """W(g, x)."""

    def sum_of_outputs(self, one: Pair, other: Pair, bias: Tensor | None) -> Tensor:
        """The sum of C(x, w) of two pairs (x, w), plus a bias."""


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

    def sum_of_outputs(self, one: Pair, other: Pair, bias: Tensor | None) -> Tensor:
        """The sum of C(x, w) of two pairs (x, w), plus a bias."""
        if self.simple and winograd.pays(*one):
            y = winograd.output(*one, other)
            return y if bias is None else y.add_(bias.view(-1, 1, 1))
        return self.output(*one, bias).add_(self.output(*other, None))

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

    def sum_of_outputs(self, one: Pair, other: Pair, bias: Tensor | None) -> Tensor:
        """The sum of C(x, w) of two pairs (x, w), plus a bias."""
        x, w = other
        return self.output(*one, bias).addmm_(x, w.t())


class _Output(torch.autograd.Function):
    """C(x, w) + b."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, kernels: Kernels, product: Product | None
    ) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.kernels, ctx.product = kernels, product
        if product is None:
            return kernels.output(x, w, b)
        return product.result("output", lambda: kernels.output(x, w, b), w[0].numel())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        return (*_Gradients.apply(g, x, w, ctx.kernels, ctx.product, wanted), None, None)


class _Gradients(torch.autograd.Function):
    """I(g, w), W(g, x) and the sum of g: the gradients of x, w and b, where ``wanted``.

    With cotangents u, v and a of the three, the gradients of g, x and w are

        C(x, v) + C(u, w) + a,      I(g, v),      W(g, u).
    """

    @staticmethod
    def forward(
        ctx: Any,
        g: Tensor,
        x: Tensor,
        w: Tensor,
        kernels: Kernels,
        product: Product | None,
        wanted: Sequence[bool],
    ) -> tuple[Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(g, x, w)
        ctx.kernels = kernels
        dx = dw = db = None
        if wanted[0]:
            multiplications = g.numel() * w[0].numel() // max(1, x.numel())
            dx = (
                kernels.input(g, w, x)
                if product is None
                else product.result("input", lambda: kernels.input(g, w, x), multiplications)
            )
        if wanted[1] and product is not None and product.weight_gradient_unused:
            dw = w.new_zeros(()).expand(w.shape)  # zeros without memory
        elif wanted[1]:
            dw = kernels.weight(g, x, w)
        if wanted[2]:
            db = g.sum([0, *range(2, g.dim())])
        return dx, dw, db

    @staticmethod
    def backward(ctx: Any, u: Tensor | None, v: Tensor | None, a: Tensor | None) -> tuple[Any, ...]:
        g, x, w = ctx.saved_tensors
        kernels: Kernels = ctx.kernels
        need_g, need_x, need_w, *_ = ctx.needs_input_grad
        dg = _sum_of_outputs(x, v, u, w, a, g, kernels) if need_g else None
        dx = dw = None
        if need_x and v is not None:
            dx = _Gradients.apply(g, x, v, kernels, None, (True, False, False))[0]
        if need_w and u is not None:
            dw = _Gradients.apply(g, u, w, kernels, None, (False, True, False))[1]
        return dg, dx, dw, None, None, None


def _sum_of_outputs(
    x: Tensor,
    v: Tensor | None,
    u: Tensor | None,
    w: Tensor,
    a: Tensor | None,
    g: Tensor,
    kernels: Kernels,
) -> Tensor | None:
    """C(x, v) + C(u, w) + a, without what is None."""
    pairs = [(x, v)] if v is not None else []
    pairs += [(u, w)] if u is not None else []
    if not pairs:
        return None if a is None else a.view(-1, *[1] * (g.dim() - 2)).expand_as(g)
    if len(pairs) == 2 and not torch.is_grad_enabled():
        return kernels.sum_of_outputs(pairs[0], pairs[1], a)
    first, *others = pairs
    y = _Output.apply(*first, a, kernels, None)
    for pair in others:
        y = y + _Output.apply(*pair, None, kernels, None)
    return y


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
