"""Convolutions and linear layers.

Both are bilinear. With T(x, w, g) = ⟨C(x, w), g⟩, every derivative of every order is one of

    C(x, w)  forward,      I(g, w)  gradient of the input,      W(g, x)  gradient of the weight,

and each has a fast kernel. torch computes the second derivatives of a convolution by convolutions
with kernels as large as the image instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten


class Leaves:
    """The parameters by which the loss is differentiated.

    For ∇⟨g, v⟩ only the graph of the gradient g is needed, not its value. Inside
    :meth:`without_values` the gradient of a weight that is one of the parameters is not computed;
    it goes nowhere but into g. The graph is the same.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.ids = {id(p) for p in parameters}
        self.values_unused = False

    @contextmanager
    def without_values(self) -> Iterator[None]:
        """A context in which gradients of these parameters have a graph but no values."""
        self.values_unused = True
        try:
            yield
        finally:
            self.values_unused = False

    def of(self, weight: Tensor) -> Leaves | None:
        """This object if the weight is one of the parameters, else None."""
        return self if id(weight) in self.ids else None


def _placeholder(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Zeros without memory."""
    return like.new_zeros(()).expand(shape)


Geometry = tuple[list[int], list[int], list[int], bool, list[int], int]


class _Convolution(torch.autograd.Function):
    """C(x, w)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, geometry: Geometry, leaves: Any) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.geometry, ctx.leaves = geometry, leaves
        return aten.convolution(x, w, None, *geometry)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        need_x, need_w, *_ = ctx.needs_input_grad
        dx = _ConvolutionInput.apply(g, w, x, ctx.geometry, ctx.leaves) if need_x else None
        dw = _ConvolutionWeight.apply(g, x, w, ctx.geometry, ctx.leaves) if need_w else None
        return dx, dw, None, None


class _ConvolutionInput(torch.autograd.Function):
    """I(g, w), of the shape of ``like``."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, w: Tensor, like: Tensor, geometry: Geometry, leaves: Any
    ) -> Tensor:
        ctx.save_for_backward(g, w)
        ctx.geometry, ctx.leaves = geometry, leaves
        mask = [True, False, False]
        return aten.convolution_backward(g, like, w, None, *geometry, mask)[0]

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Any, ...]:
        g, w = ctx.saved_tensors
        need_g, need_w, *_ = ctx.needs_input_grad
        dg = _Convolution.apply(u, w, ctx.geometry, ctx.leaves) if need_g else None
        dw = _ConvolutionWeight.apply(g, u, w, ctx.geometry, ctx.leaves) if need_w else None
        return dg, dw, None, None, None


class _ConvolutionWeight(torch.autograd.Function):
    """W(g, x), of the shape of ``like``."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, like: Tensor, geometry: Geometry, leaves: Any
    ) -> Tensor:
        ctx.save_for_backward(g, x)
        ctx.geometry = geometry
        if leaves is not None and leaves.values_unused:
            return _placeholder(like, like.shape)
        mask = [False, True, False]
        return aten.convolution_backward(g, x, like, None, *geometry, mask)[1]

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Any, ...]:
        g, x = ctx.saved_tensors
        need_g, need_x, *_ = ctx.needs_input_grad
        dg = _Convolution.apply(x, u, ctx.geometry, None) if need_g else None
        dx = _ConvolutionInput.apply(g, u, x, ctx.geometry, None) if need_x else None
        return dg, dx, None, None, None


def _convolve(
    dimensions: int,
    leaves: Leaves,
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
    geometry = (stride, padding, dilation, False, [0] * dimensions, groups)
    y = _Convolution.apply(input, weight, geometry, leaves.of(weight))
    return y if bias is None else y + bias.view(-1, *[1] * dimensions)


conv1d: Callable[..., Any] = partial(_convolve, 1)
conv2d: Callable[..., Any] = partial(_convolve, 2)
conv3d: Callable[..., Any] = partial(_convolve, 3)


class _Linear(torch.autograd.Function):
    """C(x, w) = x wᵀ + b for rows x, and I(g, w) = g w."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, leaves: Any) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.leaves = leaves
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        need_x, need_w, need_b, _ = ctx.needs_input_grad
        dw = _LinearWeight.apply(g, x, ctx.leaves) if need_w else None
        return g @ w if need_x else None, dw, g.sum(0) if need_b else None, None


class _LinearWeight(torch.autograd.Function):
    """W(g, x) = gᵀ x."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, leaves: Any) -> Tensor:
        ctx.save_for_backward(g, x)
        if leaves is not None and leaves.values_unused:
            return _placeholder(g, (g.shape[1], x.shape[1]))
        return g.t() @ x

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Any, ...]:
        g, x = ctx.saved_tensors
        need_g, need_x, _ = ctx.needs_input_grad
        return x @ u.t() if need_g else None, g @ u if need_x else None, None


def linear(leaves: Leaves, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """``F.linear``."""
    if weight.dim() != 2 or input.dim() < 2:
        return NotImplemented
    rows = input.reshape(-1, input.shape[-1])
    y = _Linear.apply(rows, weight, bias, leaves.of(weight))
    return y.view(*input.shape[:-1], weight.shape[0])
