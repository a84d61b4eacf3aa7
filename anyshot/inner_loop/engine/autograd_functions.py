"""Between the autograd world and the engine: functions of θ, β, s and weights c_n whose derivatives are its passes.

    f        the features f(θ, β, s)         backward: the engine's
    CE_n     cross-entropies CE_n(θ, β, s)   backward: ∇ Σ_n c_n CE_n, which is the next line
    ℓ, g     Σ_n c_n CE_n and its ∇_θ        backward, for cotangents δ of ℓ and v of g:
             θ: δ g + H v,   c_n: δ CE_n + ∂_v CE_n,   β: δ ∇_β ℓ + ∂_v ∇_β ℓ,   s: δ ∇_s ℓ + ∂_v ∇_s ℓ

So an update rule written in plain torch around g has exact second-order meta-gradients, and autograd sees small tensors
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import single_task_threads
from anyshot.inner_loop.engine import network as engine
from anyshot.inner_loop.engine.blocks import Pictures
from anyshot.inner_loop.engine.torch_ops import CL, fused
from anyshot.models.bodies import conv4
from anyshot.models.bodies.conv4 import CONV_WEIGHTS, LAYERS
from anyshot.models.network import HEAD_PARAMETERS, Features, Norm, Parameters

NAMES = (
    CONV_WEIGHTS + HEAD_PARAMETERS
)  #: what the engine moves, in its order; the conv biases cancel and stay as they are


def obstacle(
    body: Features, theta: Parameters, norm: Norm, images: Sequence[Tensor], *others: Tensor
) -> str | None:  # fmt: skip
    """Why the engine cannot do this with these sets of images, as part of a sentence; None if it can."""
    x = images[0]
    if body is not conv4.features:
        return "the body is not Conv4"
    if any(theta[name].shape[2:] != (3, 3) for name in CONV_WEIGHTS):
        return "a convolution is not 3×3"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the images are {x.dtype}"
    if any(t.dtype != x.dtype for t in (*images, *theta.values(), *norm.shift, *others)):
        return "images, parameters and weights have different types"
    if any(t.requires_grad for t in images):
        return "a gradient with respect to images is asked for"
    if min(x.shape[2:]) < 2**LAYERS:
        return f"images of {x.shape[2]}×{x.shape[3]} vanish in {LAYERS} poolings"
    return None


# ---------------------------------------------------------------------------------------------- inwards
@dataclass
class View:
    """The engine's view of θ, β and s: detached, ordered, channels-last, scales positive.

    Pooling commutes with positive slopes only, so a negative scale is made positive by turning the weights round:
    s x̂(W) = |s| x̂(−W).
    """

    theta: list[Tensor]  #: W1..W4 and, if there is one, the head
    shift: list[Tensor]
    scale: list[Tensor]
    sign: list[Tensor] | None  #: ±1 per channel, shaped like a weight; None without scales
    ops: ModuleType  #: what does the work: :mod:`.ops` or :mod:`.loops`

    @staticmethod
    def of(theta: Parameters, norm: Norm) -> View:
        """The view of these."""
        shift, sign = [t.detach() for t in norm.shift], None
        if norm.scale is None:
            scale = [torch.ones_like(t) for t in shift]
        else:
            scale = [t.detach().abs() for t in norm.scale]
            sign = [torch.where(t < 0, -1.0, 1.0).to(t.dtype).view(-1, 1, 1, 1) for t in norm.scale]
        values = turn([theta[name].detach() for name in NAMES if name in theta], sign)
        body = [t.contiguous(memory_format=CL) for t in values[:LAYERS]]
        return View(body + values[LAYERS:], shift, scale, sign, fused(body))

    @single_task_threads()
    def body(self, x: Tensor, centre: bool, reference: Tensor | None = None) -> engine.Body:
        """The blocks' forward pass, up to the features."""
        return engine.Body(*self._inputs(x, centre, reference))

    @single_task_threads()
    def net(self, x: Tensor, centre: bool, reference: Tensor | None = None) -> engine.Net:
        """The forward pass, up to the logits."""
        return engine.Net(self.theta[LAYERS:], *self._inputs(x, centre, reference))

    def _inputs(self, x: Tensor, centre: bool, reference: Tensor | None) -> tuple[Any, ...]:
        lender = None if reference is None else self.body(reference, centre)
        return (
            self.ops,
            self.theta[:LAYERS],
            self.shift,
            self.scale,
            centre,
            pictures(self.ops, x),
            lender,
        )

    def outwards(
        self, dtheta: list[Tensor], dshift: list[Tensor], dscale: list[Tensor]
    ) -> list[Tensor]:
        """Gradients of what was given, in the order of :func:`leaves`."""
        if self.sign is None:
            return [*dtheta, *dshift]
        turned = [d * s.flatten() for d, s in zip(dscale, self.sign, strict=True)]
        return [*turn(dtheta, self.sign), *dshift, *turned]


def leaves(theta: Parameters, norm: Norm, names: Sequence[str] = NAMES) -> list[Tensor]:
    """What the engine's functions depend on: θ, β and s."""
    return [*(theta[name] for name in names), *norm.shift, *(norm.scale or ())]


def turn(tensors: list[Tensor], sign: list[Tensor] | None) -> list[Tensor]:
    """Turn the convolution weights (or their gradients) round where the sign says so; its own inverse."""
    return (
        tensors
        if sign is None
        else [t * s for t, s in zip(tensors, sign, strict=False)] + tensors[LAYERS:]
    )


def pictures(ops: ModuleType, images: Tensor) -> Pictures:
    """What depends on the images alone, kept with their tensor for the next step as long as it is not changed."""
    if images.is_inference():  # these do not tell whether they were changed
        return Pictures(ops, images)
    kept = getattr(images, "_pictures", None)
    if kept is None or kept[0] != (ops, images._version):
        kept = ((ops, images._version), Pictures(ops, images.detach()))
        images._pictures = kept  # type: ignore[attr-defined]
    return kept[1]


# ---------------------------------------------------------------------------------------------- the passes of a net
@dataclass
class Passes:
    """A net on a labelled set, after its forward pass."""

    view: View
    net: engine.Net
    labels: Tensor
    zero_head: bool = False  #: the head is zero and nobody asks for its gradient
    token: object = None  #: whose c the net went back with last

    @single_task_threads()
    def gradients(self, c: Tensor, token: object) -> tuple[Tensor, list[Tensor]]:
        """CE_n, and the gradients of Σ_n c_n CE_n."""
        ce, self.token = self.net.loss(self.labels, c), token
        if not self.zero_head:
            return ce, self.view.outwards(*self.net.backward())
        still = [
            [torch.zeros_like(t) for t in part]
            for part in (self.view.theta, self.view.shift, self.view.scale)
        ]
        still[0][LAYERS:] = self.net.head_gradient()  # a zero head sends nothing down
        return ce, self.view.outwards(*still)

    @single_task_threads()
    def products(self, v: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
        """∂_v CE_n, and the derivatives of the gradients along v, a direction of θ."""
        filled = [
            torch.zeros_like(t) if d is None else d for d, t in zip(v, self.view.theta, strict=True)
        ]
        times = self.net.hessian_times_at_zero_head if self.zero_head else self.net.hessian_times
        *found, ced = times(turn(filled, self.view.sign))
        return ced, self.view.outwards(*found)


def _keep(what: Any) -> Tensor:
    """An empty tensor that carries something: what is saved as a tensor, autograd drops when it has passed by."""
    handle = torch.empty(0)
    handle.carried = what  # type: ignore[attr-defined]
    return handle


class _Gradient(torch.autograd.Function):
    """c, θ, β, s → ℓ, ∇_θ ℓ, ∇_β ℓ, ∇_s ℓ."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, c: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.token = object()
        ce, gradients = passes.gradients(c, ctx.token)
        ctx.save_for_backward(_keep(passes), c, ce, *gradients)
        return (c @ ce, *gradients)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor | None, *v: Tensor | None) -> tuple[Tensor | None, ...]:
        handle, c, ce, *gradients = ctx.saved_tensors
        passes, total = handle.carried, [None] * (1 + len(gradients))
        if any(d is not None for d in v):
            if passes.net.lender is not None or any(d is not None for d in v[len(NAMES) :]):
                what = (
                    "β and scales"
                    if passes.net.lender is None
                    else "θ with another set's statistics"
                )
                raise AnyshotError(
                    f"The engine has no second derivative for steps on {what}; use engine='autograd'."
                )
            if passes.token is not ctx.token:  # the net went back with another c since
                passes.gradients(c, ctx.token)
            dc, products = passes.products(v[: len(NAMES)])
            total = [dc, *products]
        if dloss is not None:
            total = [
                dloss * g if t is None else t + dloss * g
                for t, g in zip(total, (ce, *gradients), strict=True)
            ]
        return (None, *total)


class _CrossEntropy(torch.autograd.Function):
    """θ, β, s → CE_n."""

    @staticmethod
    def forward(ctx: Any, passes: Passes, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(_keep(passes), *inputs)
        return passes.net.loss(passes.labels, inputs[0].new_ones(len(passes.labels)))

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor | None, ...]:
        handle, *inputs = ctx.saved_tensors
        return (None, *_Gradient.apply(handle.carried, c, *inputs)[1:])


class _Features(torch.autograd.Function):
    """W, β, s → f."""

    @staticmethod
    def forward(ctx: Any, view: View, body: engine.Body, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(_keep((view, body)))
        return body.f.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, df: Tensor) -> tuple[Tensor | None, ...]:
        view, body = ctx.saved_tensors[0].carried
        with single_task_threads():
            return (None, None, *view.outwards(*body.body_backward(df.clone())))


# ---------------------------------------------------------------------------------------------- the functions
def gradient(
    theta: Parameters, images: Tensor, labels: Tensor, weights: Tensor, norm: Norm, centre: bool
) -> tuple[Parameters, Tensor]:
    """:func:`anyshot.inner_loop.gradient` by the engine."""
    with torch.no_grad():
        view = View.of(theta, norm)
        zero_head = not any(
            theta[name].requires_grad or bool(theta[name].count_nonzero())
            for name in HEAD_PARAMETERS
        )
        passes = Passes(view, view.net(images, centre), labels, zero_head)
    loss, *found = _Gradient.apply(passes, weights, *leaves(theta, norm))
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
) -> tuple[Tensor, Tensor]:
    """:func:`anyshot.inner_loop.cross_entropy` by the engine."""
    with torch.no_grad():
        view = View.of(theta, norm)
        passes = Passes(view, view.net(images, centre, reference), labels)
    return _CrossEntropy.apply(passes, *leaves(theta, norm)), passes.net.logits


def logits(
    theta: Parameters, images: Tensor, norm: Norm, centre: bool, reference: Tensor | None
) -> Tensor:
    """Class scores, without a graph."""
    with torch.no_grad():
        return View.of(theta, norm).net(images, centre, reference).logits


def features(
    theta: Parameters, norm: Norm, images: Tensor, centre: bool, reference: Tensor | None
) -> Tensor:
    """:func:`anyshot.inner_loop.features` by the engine."""
    with torch.no_grad():
        view = View.of(theta, norm)
        body = view.body(images, centre, reference)
    return _Features.apply(view, body, *leaves(theta, norm, CONV_WEIGHTS))
