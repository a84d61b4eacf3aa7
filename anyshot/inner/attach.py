"""Between the autograd world and the engine: detach an :class:`Inner`, run, and hang the gradients on its tensors.

The engine computes loss and gradients together; :class:`_Attach` then gives the loss its gradients, and autograd
carries them on to whatever made θ_0, A, w, β and s: α, γ, ω, z, the encoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from anyshot.bodies import conv4
from anyshot.bodies.conv4 import CONV_BIASES, CONV_WEIGHTS, LAYERS
from anyshot.inner import engine
from anyshot.inner.blocks import Pictures
from anyshot.inner.ops import CL, fused
from anyshot.inner.update import Inner
from anyshot.network import HEAD, Features, Norm, Parameters
from anyshot.parallel import alone

NAMES = CONV_WEIGHTS + HEAD  #: what the engine moves, in its order; the conv biases cancel and stay as they are


def obstacle(inner: Inner, images: Tensor | None = None) -> str | None:
    """Why the engine cannot do this problem, as part of a sentence; None if it can."""
    if inner.body is conv4.features and not set(HEAD) <= set(inner.theta):
        return f"the parameters {sorted(inner.theta)} are not those of Conv4"
    reason = obstacle_in_body(inner.body, inner.theta, inner.norm, inner.images, images)
    if reason is None and inner.weights.dtype != inner.images.dtype:
        return "images and weights have different types"
    return reason


def obstacle_in_body(
    features: Features, theta: Parameters, norm: Norm, x: Tensor, images: Tensor | None = None
) -> str | None:  # fmt: skip
    """The same for the body alone, on the images x and, with the statistics of those, on others."""
    if features is not conv4.features:
        return "the body is not Conv4"
    if set(theta) - set(CONV_BIASES) - set(HEAD) != set(CONV_WEIGHTS):
        return f"the parameters {sorted(theta)} are not those of Conv4"
    if any(theta[name].shape[2:] != (3, 3) for name in CONV_WEIGHTS):
        return "a convolution is not 3×3"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the images are {x.dtype}"
    if any(t.dtype != x.dtype for t in (*theta.values(), *norm.shift)):
        return "images and parameters have different types"
    if x.requires_grad or (images is not None and images.requires_grad):
        return "a gradient with respect to images is asked for"
    if min(x.shape[2:]) < 2**LAYERS:
        return f"images of {x.shape[2]}×{x.shape[3]} vanish in {LAYERS} poolings"
    return None


def signs(norm: Norm) -> list[Tensor] | None:
    """±1 per channel and block: the sign of a scale.

    Pooling commutes with positive slopes only, so a negative scale is made positive by turning the weights round:
    s x̂(W) = |s| x̂(−W). The update rule is element-wise and keeps the turn.
    """
    if norm.scale is None:
        return None
    return [torch.where(s.detach() < 0, -1.0, 1.0).to(s.dtype).view(-1, 1, 1, 1) for s in norm.scale]


def turn(tensors: list[Tensor], sign: list[Tensor] | None) -> list[Tensor]:
    """Turn the convolution weights (or their gradients) round where the sign says so; its own inverse."""
    return tensors if sign is None else [t * s for t, s in zip(tensors, sign, strict=False)] + tensors[LAYERS:]


def body(theta: Parameters, norm: Norm) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The engine's view of the body: weights, shift, scale; detached, ordered, channels-last, scales positive."""
    weights = turn([theta[name].detach() for name in CONV_WEIGHTS], signs(norm))
    shift = [t.detach() for t in norm.shift]
    scale = [t.detach().abs() for t in norm.scale] if norm.scale else [torch.ones_like(t) for t in shift]
    return [t.contiguous(memory_format=CL) for t in weights], shift, scale


def problem(inner: Inner) -> engine.Problem:
    """The engine's view of an inner problem: as :func:`body` says."""
    like, (weights, shift, scale) = inner.images, body(inner.theta, inner.norm)
    head = [inner.theta[name] for name in HEAD]
    rates = [torch.as_tensor(inner.rates[name], dtype=like.dtype, device=like.device).detach() for name in NAMES]
    rates = [t.contiguous(memory_format=CL) if t.dim() == 4 else t for t in rates]
    return engine.Problem(
        images=like.detach().contiguous(memory_format=CL),
        labels=inner.labels,
        weights=inner.weights.detach(),
        theta=weights + [t.detach() for t in head],
        rates=rates,
        shift=shift,
        scale=scale,
        steps=inner.steps,
        centre=inner.centre,
        transductive=inner.transductive,
        zero_head=not any(t.requires_grad or bool(t.count_nonzero()) for t in head),
        ops=fused(weights),
    )


def parameters(inner: Inner, theta: list[Tensor]) -> Parameters:
    """θ as a dict again, in the order of ``inner.theta``, with its unchanged conv biases."""
    moved = dict(zip(NAMES, turn(theta, signs(inner.norm)), strict=True))
    return {name: moved.get(name, value.detach()) for name, value in inner.theta.items()}


def at(inner: Inner, theta: Parameters) -> Inner:
    """The same problem at another θ."""
    return replace(inner, theta=theta)


class _Attach(torch.autograd.Function):
    """Gives an already computed loss its already computed gradients."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *[dloss * g for g in ctx.gradients])


@alone()
def query_loss(inner: Inner, images: Tensor, labels: Tensor, order: int = 2) -> tuple[Tensor, Tensor]:
    """:func:`anyshot.inner.update.query_loss` by the engine."""
    task, x = problem(inner), images.detach().contiguous(memory_format=CL)
    leaves = _leaves(inner, order) if torch.is_grad_enabled() else []
    wanted = [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.requires_grad]
    with torch.no_grad():
        if not wanted:
            net = engine.query(task, engine.inner_loop(task), x)
            return F.cross_entropy(net.logits, labels), net.logits
        loss, logits, found = engine.meta_gradient(task, x, labels, order)
        gradients = _in_order(found, signs(inner.norm))
    return _Attach.apply(loss, [gradients[i] for i in wanted], *[leaves[i] for i in wanted]), logits


def _leaves(inner: Inner, order: int) -> list[Tensor]:
    """What the loss depends on: β and s; from order 1 on θ_0 and, if there are steps, A; at order 2 w as well."""
    leaves = [*inner.norm.shift, *(inner.norm.scale or ())]
    if order > 0:
        leaves += [inner.theta[name] for name in NAMES]
    if order > 0 and inner.steps:
        leaves += [inner.rates[name] for name in NAMES]
    if order == 2 and inner.steps:
        leaves.append(inner.weights)
    return leaves


def _in_order(found: engine.Gradients, sign: list[Tensor] | None) -> list[Tensor]:
    """The gradients in the order of :func:`_leaves`, which may end earlier."""
    scale = [] if sign is None else [d * s.flatten() for d, s in zip(found.scale, sign, strict=True)]
    # A's do not turn, as λ and g_k both do
    return [*found.shift, *scale, *turn(found.theta, sign), *found.rates, found.weights]


@alone()
def features(theta: Parameters, norm: Norm, x: Tensor, centre: bool, reference: Tensor | None) -> Tensor:
    """:func:`anyshot.network.embed` by the engine, differentiable once in θ, β and s."""
    with torch.no_grad():
        weights, shift, scale = body(theta, norm)
        ops = fused(weights)

        def passed(images: Tensor, lender: engine.Body | None) -> engine.Body:
            pictures = Pictures(ops, images.detach().contiguous(memory_format=CL))
            return engine.Body(ops, weights, shift, scale, centre, pictures, lender)

        made = passed(x, None if reference is None else passed(reference, None))
    leaves = [*(theta[name] for name in CONV_WEIGHTS), *norm.shift, *(norm.scale or ())]
    if torch.is_grad_enabled() and any(t.requires_grad for t in leaves):
        return _Features.apply(made, signs(norm), *leaves)
    return made.f


class _Features(torch.autograd.Function):
    """Gives features that were computed their way back."""

    @staticmethod
    def forward(ctx: Any, body: engine.Body, sign: list[Tensor] | None, *leaves: Tensor) -> Tensor:
        ctx.body, ctx.sign = body, sign
        return body.f.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, df: Tensor) -> tuple[Tensor | None, ...]:
        with alone():
            weights, shift, scale = ctx.body.body_backward(df.clone())
        if ctx.sign is None:
            return None, None, *weights, *shift
        turned = [d * s.flatten() for d, s in zip(scale, ctx.sign, strict=True)]
        return None, None, *turn(weights, ctx.sign), *shift, *turned
