"""Batch norm and layer norm: y = γ x̂ + β with x̂ = r (x − μ), r = (variance + ε)^−½.

The gradient of x is P(γ g) with the linear map P(h) = r (h − ⟨h⟩ − x̂ ⟨h x̂⟩), its own transpose;
⟨⟩ are means over the N elements that share μ. Let u, a, b be the cotangents of the gradients of x,
γ and β, and h = γ g. Then

    of g:   γ P(u) + a x̂ + b
    of x̂:   E = a g − r (⟨u x̂⟩ h + ⟨h x̂⟩ u)
    of x:   P(E) − ⟨h P(u)⟩ r x̂
    of γ:   Σ g P(u)

(In batch norm γ is constant over the N elements, so that sums are shared.) Third derivatives are
those of the same formulas in plain operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
ALL = [True, True, True]


def _plain_gradient(
    g: Tensor, x: Tensor, gamma: Tensor, eps: float, dims: list[int], outer: list[int]
) -> list[Tensor]:
    """The gradients of x, γ and β by plain operators; γ has x's number of dimensions."""
    var, mu = torch.var_mean(x, dims, correction=0, keepdim=True)
    r = (var + eps).rsqrt()
    xhat = (x - mu) * r
    h = gamma * g
    dx = r * (h - h.mean(dims, keepdim=True) - xhat * (h * xhat).mean(dims, keepdim=True))
    return [dx, (g * xhat).sum(outer, keepdim=True), g.sum(outer, keepdim=True)]


def _differentiable(
    inputs: Sequence[Tensor],
    gradient: Callable[..., list[Tensor]],
    cotangents: Sequence[Tensor],
) -> tuple[Tensor | None, ...]:
    """Cotangents of the inputs of ``gradient``, with a graph."""
    at = [t.view_as(t) if t.requires_grad else t for t in inputs]
    wanted = [t for t in at if t.requires_grad]
    outputs = gradient(*at)
    shaped = [c.view_as(o) for c, o in zip(cotangents, outputs, strict=True)]
    used = [(o, c) for o, c in zip(outputs, shaped, strict=True) if o.requires_grad]
    found = iter(
        torch.autograd.grad(
            [o for o, _ in used], wanted, [c for _, c in used], create_graph=True, allow_unused=True
        )
    )
    return tuple(next(found) if t.requires_grad else None for t in at)


class _BatchNorm(torch.autograd.Function):
    """γ x̂ + β."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, running: Any, momentum: float, eps: float
    ) -> Tensor:
        y, mu, r = aten.native_batch_norm(x, gamma, beta, *running, True, momentum, eps)
        ctx.save_for_backward(x, gamma, mu, r)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return (*_BatchNormGradient.apply(g, *ctx.saved_tensors, ctx.eps), None, None, None)


class _BatchNormGradient(torch.autograd.Function):
    """g → the gradients of x, γ and β."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, gamma: Tensor, mu: Tensor, r: Tensor, eps: float
    ) -> Any:
        dx, dgamma, dbeta = aten.native_batch_norm_backward(
            g, x, gamma, None, None, mu, r, True, eps, ALL
        )
        ctx.save_for_backward(g, x, gamma, mu, r, dgamma, dbeta)
        ctx.eps = eps
        return dx, dgamma, dbeta

    @staticmethod
    def backward(ctx: Any, u: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        g, x, gamma, mu, r, dgamma, dbeta = ctx.saved_tensors
        shape = [1, -1, *[1] * (x.dim() - 2)]
        dims = [0, *range(2, x.dim())]
        if torch.is_grad_enabled():

            def gradient(g: Tensor, x: Tensor, gamma: Tensor) -> list[Tensor]:
                return _plain_gradient(g, x, gamma.view(shape), ctx.eps, dims, dims)

            return (*_differentiable([g, x, gamma], gradient, [u, a, b]), None, None, None)
        # γ P(u), Σ u x̂ and Σ u
        pu, sum_ux, sum_u = aten.native_batch_norm_backward(
            u, x, gamma, None, None, mu, r, True, ctx.eps, ALL
        )
        n = x.numel() // x.shape[1]
        g_mean, gx_mean, u_mean, ux_mean = (t / n for t in (dbeta, dgamma, sum_u, sum_ux))
        gpu = r * ((g * u).sum(dims) - n * (g_mean * u_mean + gx_mean * ux_mean))  # Σ g P(u)
        on_g, on_u = a - gamma * r * ux_mean, -gamma * r * gx_mean  # E = on_g g + on_u u
        on_xhat = -r * (on_g * gx_mean + on_u * ux_mean + gamma * gpu / n)
        constant = -r * (on_g * g_mean + on_u * u_mean) - on_xhat * r * mu
        dx = torch.addcmul(constant.view(shape), x, (on_xhat * r).view(shape))
        dx.addcmul_(g, (r * on_g).view(shape)).addcmul_(u, (r * on_u).view(shape))
        pu.addcmul_(x, (a * r).view(shape)).add_((b - a * r * mu).view(shape))
        return pu, dx, gpu, None, None, None


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """``F.batch_norm`` with the statistics of the batch."""
    if not training or weight is None or bias is None or input.numel() <= input.shape[1]:
        return NotImplemented
    return _BatchNorm.apply(input, weight, bias, (running_mean, running_var), momentum, eps)


class _LayerNorm(torch.autograd.Function):
    """γ x̂ + β for rows x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        y, mu, r = aten.native_layer_norm(x, x.shape[1:], gamma, beta, eps)
        ctx.save_for_backward(x, gamma, beta, mu, r)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return (*_LayerNormGradient.apply(g, *ctx.saved_tensors, ctx.eps), None)


class _LayerNormGradient(torch.autograd.Function):
    """g → the gradients of x, γ and β."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, mu: Tensor, r: Tensor, eps: Any
    ) -> Any:
        ctx.save_for_backward(g, x, gamma, mu, r)
        ctx.eps = eps
        return aten.native_layer_norm_backward(g, x, x.shape[1:], mu, r, gamma, beta, ALL)

    @staticmethod
    def backward(ctx: Any, u: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        g, x, gamma, mu, r = ctx.saved_tensors
        if torch.is_grad_enabled():

            def gradient(g: Tensor, x: Tensor, gamma: Tensor) -> list[Tensor]:
                return _plain_gradient(g, x, gamma, ctx.eps, [1], [0])

            return (*_differentiable([g, x, gamma], gradient, [u, a, b]), *[None] * 4)
        xhat = (x - mu).mul_(r)
        h = g * gamma
        ux_mean, hx_mean = ((t * xhat).mean(1, keepdim=True) for t in (u, h))
        pu = (u - u.mean(1, keepdim=True)).addcmul_(xhat, ux_mean, value=-1).mul_(r)
        gpu = g * pu
        e = (g * a).addcmul_(h, r * ux_mean, value=-1).addcmul_(u, r * hx_mean, value=-1)
        on_xhat = (e * xhat).mean(1, keepdim=True) + (gpu @ gamma)[:, None] / x.shape[1]
        dx = e.sub_(e.mean(1, keepdim=True)).addcmul_(xhat, on_xhat, value=-1).mul_(r)
        dgamma = gpu.sum(0)
        dg = pu.mul_(gamma).addcmul_(xhat, a).add_(b)
        return dg, dx, dgamma, None, None, None, None


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """``F.layer_norm`` over the last dimension."""
    if len(normalized_shape) != 1 or weight is None or bias is None or not input.numel():
        return NotImplemented
    rows = input.reshape(-1, input.shape[-1])
    return _LayerNorm.apply(rows, weight, bias, eps).view_as(input)
