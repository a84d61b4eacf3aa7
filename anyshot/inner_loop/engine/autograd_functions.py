"""The engine's passes as functions of θ, β, s and weights c_n that autograd can differentiate.

    f        the features f(θ, β, s)         backward: the engine's
    CE_n     cross-entropies CE_n(θ, β, s)   backward: ∇ Σ_n c_n CE_n, which is the next line
    ℓ, g     Σ_n c_n CE_n and its ∇_θ        backward, for cotangents δ of ℓ and v of g:
             θ: δ g + H v,   c_n: δ CE_n + ∂_v CE_n,
             β: δ ∇_β ℓ + ∂_v ∇_β ℓ,   s: δ ∇_s ℓ + ∂_v ∇_s ℓ

So an update rule written in plain torch around g has exact second-order meta-gradients, and
autograd handles small tensors only. Derivatives beyond these are recomputed by autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyshot.core.parallel.threads import single_task_threads
from anyshot.inner_loop import autograd
from anyshot.inner_loop.engine.network import Body, Net
from anyshot.inner_loop.engine.parameters import NAMES, EngineParameters, inputs_of
from anyshot.inner_loop.fallback import fall_back_to_autograd
from anyshot.models.bodies.conv4 import CONV_WEIGHTS, LAYERS
from anyshot.models.network import HEAD_PARAMETERS, Norm, Parameters


@dataclass
class LabelledPass:
    """A net on labelled images, after its forward pass."""

    parameters: EngineParameters
    net: Net
    labels: Tensor
    engine: str  #: "engine" refuses derivatives that only autograd can compute
    zero_head: bool = False  #: the head is zero and needs no gradient
    last_caller: object = None  #: which call the net's backward pass ran for last

    @single_task_threads()
    def gradients(self, c: Tensor, caller: object) -> tuple[Tensor, list[Tensor]]:
        """CE_n, and the gradients of Σ_n c_n CE_n."""
        ce = self.net.loss(self.labels, c)
        self.last_caller = caller
        if not self.zero_head:
            return ce, self.parameters.to_caller(*self.net.backward())
        dtheta = [torch.zeros_like(t) for t in self.parameters.theta]
        dtheta[LAYERS:] = self.net.head_gradient()  # no gradient passes through a zero head
        dshift = [torch.zeros_like(t) for t in self.parameters.shift]
        dscale = [torch.zeros_like(t) for t in self.parameters.scale]
        return ce, self.parameters.to_caller(dtheta, dshift, dscale)

    @single_task_threads()
    def products(self, v: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
        """∂_v CE_n, and the derivatives of the gradients along v, a direction of θ."""
        direction = [
            torch.zeros_like(t) if d is None else d
            for d, t in zip(v, self.parameters.theta, strict=True)
        ]
        direction = self.parameters.flip_signs(direction)
        if self.zero_head:
            *products, ced = self.net.hessian_times_at_zero_head(direction)
        else:
            *products, ced = self.net.hessian_times(direction)
        return ced, self.parameters.to_caller(*products)


def _attach_to_tensor(value: Any) -> Tensor:
    """Attach a value to an empty tensor: autograd frees saved tensors after backward."""
    handle = torch.empty(0)
    handle.carried = value  # type: ignore[attr-defined]
    return handle


class _Gradient(torch.autograd.Function):
    """c, θ, β, s → ℓ, ∇_θ ℓ, ∇_β ℓ, ∇_s ℓ."""

    @staticmethod
    def forward(ctx: Any, labelled: LabelledPass, c: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.caller = object()
        ce, gradients = labelled.gradients(c, ctx.caller)
        ctx.save_for_backward(_attach_to_tensor(labelled), ce, c, *inputs, *gradients)
        return (c @ ce, *gradients)

    @staticmethod
    def backward(ctx: Any, dloss: Tensor | None, *v: Tensor | None) -> tuple[Tensor | None, ...]:
        handle, ce, c, *tensors = ctx.saved_tensors
        labelled: LabelledPass = handle.carried
        inputs, gradients = tensors[: len(v)], tensors[len(v) :]
        reason = _autograd_reason(labelled, v)
        if reason is not None:
            fall_back_to_autograd(reason, labelled.engine)
            cotangents = (dloss, *v)
            return (None, *_differentiate_by_autograd(labelled, c, inputs, cotangents))
        total: list[Any] = [None] * (1 + len(gradients))
        if any(d is not None for d in v):
            if labelled.last_caller is not ctx.caller:  # the net's state is that of another call
                labelled.gradients(c, ctx.caller)
            dc, products = labelled.products(v[: len(NAMES)])
            total = [dc, *products]
        if dloss is not None:
            total = [
                dloss * g if t is None else t + dloss * g
                for t, g in zip(total, (ce, *gradients), strict=True)
            ]
        return (None, *total)


def _autograd_reason(labelled: LabelledPass, v: Sequence[Tensor | None]) -> str | None:
    """Why the engine cannot compute this backward pass of g; None if it can."""
    if torch.is_grad_enabled():  # create_graph: the result will be differentiated again
        return "a third derivative is needed"
    if any(d is not None for d in v[len(NAMES) :]):
        return "a second derivative with respect to β or a scale is needed"
    if labelled.net.source is not None and any(d is not None for d in v):
        return "a second derivative with another set's batch statistics is needed"
    return None


def _differentiate_by_autograd(
    labelled: LabelledPass,
    c: Tensor,
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """The backward pass of :class:`_Gradient`, differentiable if gradients are on."""
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        weights, *at = autograd.differentiable_views((c, *inputs))
        theta, norm = _unpack(NAMES, at)
        net = labelled.net
        loss = autograd.support_loss(
            theta, net.images, labelled.labels, weights, norm, net.centre, net.reference
        )
        g = torch.autograd.grad(loss, at, create_graph=True, materialize_grads=True)
        used = [
            (output, d) for output, d in zip((loss, *g), cotangents, strict=True) if d is not None
        ]
        return torch.autograd.grad(
            [output for output, _ in used],
            [weights, *at],
            [d for _, d in used],
            create_graph=graph,
            allow_unused=True,
        )


def _unpack(names: Sequence[str], tensors: Sequence[Tensor]) -> tuple[Parameters, Norm]:
    """The inverse of :func:`.parameters.inputs_of`."""
    theta = dict(zip(names, tensors, strict=False))
    others = tensors[len(names) :]
    return theta, Norm(others[:LAYERS], others[LAYERS:] or None)


class _CrossEntropy(torch.autograd.Function):
    """θ, β, s → CE_n."""

    @staticmethod
    def forward(ctx: Any, labelled: LabelledPass, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(_attach_to_tensor(labelled), *inputs)
        return labelled.net.loss(labelled.labels, inputs[0].new_ones(len(labelled.labels)))

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor | None, ...]:
        handle, *inputs = ctx.saved_tensors
        return (None, *_Gradient.apply(handle.carried, c, *inputs)[1:])


class _Features(torch.autograd.Function):
    """W, β, s → f."""

    @staticmethod
    def forward(
        ctx: Any, parameters: EngineParameters, body: Body, engine: str, *inputs: Tensor
    ) -> Tensor:
        ctx.save_for_backward(_attach_to_tensor((parameters, body, engine)), *inputs)
        return body.f.clone()

    @staticmethod
    def backward(ctx: Any, df: Tensor) -> tuple[Tensor | None, ...]:
        handle, *inputs = ctx.saved_tensors
        parameters, body, engine = handle.carried
        if not torch.is_grad_enabled():
            with single_task_threads():
                gradients = parameters.to_caller(*body.body_backward(df.clone()))
            return (None, None, None, *gradients)
        fall_back_to_autograd("a second derivative of features is needed", engine)
        at = autograd.differentiable_views(inputs)
        theta, norm = _unpack(CONV_WEIGHTS, at)
        f = autograd.features(theta, norm, body.images, body.centre, body.reference)
        return (None, None, None, *torch.autograd.grad(f, at, df, create_graph=True))


# ---------------------------------------------------------------------- functions of the dispatcher
def gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    centre: bool,
    engine: str,
) -> tuple[Parameters, Tensor]:
    """:func:`anyshot.gradient` by the engine."""
    with torch.no_grad():
        parameters = EngineParameters.from_parameters(theta, norm)
        # The shortcut of the first step: no gradient passes through a zero head.
        zero_head = not any(
            theta[name].requires_grad or bool(theta[name].count_nonzero())
            for name in HEAD_PARAMETERS
        )
        net = parameters.forward_net(images, centre)
        labelled = LabelledPass(parameters, net, labels, engine, zero_head)
    loss, *found = _Gradient.apply(labelled, weights, *inputs_of(theta, norm))
    g = dict(zip(NAMES, found, strict=False))
    return {
        name: g[name] if name in g else torch.zeros_like(value) for name, value in theta.items()
    }, loss


def cross_entropy(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    norm: Norm,
    centre: bool,
    reference: Tensor | None,
    engine: str,
) -> tuple[Tensor, Tensor]:
    """:func:`anyshot.cross_entropy` by the engine."""
    with torch.no_grad():
        parameters = EngineParameters.from_parameters(theta, norm)
        net = parameters.forward_net(images, centre, reference)
        labelled = LabelledPass(parameters, net, labels, engine)
    return _CrossEntropy.apply(labelled, *inputs_of(theta, norm)), net.logits


def logits(
    theta: Parameters, images: Tensor, norm: Norm, centre: bool, reference: Tensor | None
) -> Tensor:
    """Class scores, without a graph."""
    with torch.no_grad():
        return (
            EngineParameters.from_parameters(theta, norm)
            .forward_net(images, centre, reference)
            .logits
        )


def features(
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool,
    reference: Tensor | None,
    engine: str,
) -> Tensor:
    """Features by the engine."""
    with torch.no_grad():
        parameters = EngineParameters.from_parameters(theta, norm)
        body = parameters.forward_body(images, centre, reference)
    return _Features.apply(parameters, body, engine, *inputs_of(theta, norm, CONV_WEIGHTS))
