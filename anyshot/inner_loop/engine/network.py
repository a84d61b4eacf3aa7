"""The whole network by hand-derived passes: forward, backward, and the tangents of both for Hessian-vector products.

With ℓ = Σ_n w_n CE_n(θ, β, s) and a direction v of θ, a forward-over-reverse sweep over the blocks gives H v, ∂_v CE_n,
∂_v ∇_β ℓ and ∂_v ∇_s ℓ: all that the backward of g = ∇_θ ℓ consists of, which :mod:`.attach` hands to autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop.engine.blocks import Block, FirstBlock, Pictures, Statistics
from anyshot.models.bodies.conv4 import LAYERS

Tensors = list[Tensor]


class Body:
    """Forward and backward of the blocks at θ, up to the features f; keeps what the Hessian-vector product needs.

    With a ``lender`` all statistics are those of that body (another set, the same θ) and the backward pass goes through
    both; the product is for bodies that have their own.
    """

    def __init__(
        self, ops: ModuleType, weights: Tensors, shift: Tensors, scale: Tensors, centre: bool, pictures: Pictures,
        lender: Body | None = None,
    ) -> None:  # fmt: skip
        self.ops, self.centre, self.lender = ops, centre, lender
        first, *rest = (
            [ops.enter(t) for t in block] for block in zip(weights, shift, scale, strict=True)
        )
        lenders: Sequence[Any] = lender.blocks if lender else [None] * LAYERS
        statistics = [Statistics(block) for block in lenders]
        self.first = FirstBlock(ops, statistics[0], pictures, *first)
        self.rest = [
            Block(ops, lent, *block) for lent, block in zip(statistics[1:], rest, strict=True)
        ]
        self.blocks: list[Any] = [self.first, *self.rest]
        x = self.first.forward()
        for block in self.rest:
            x = block.forward(x)
        h = ops.features(x)
        self.mean: Tensor = lender.mean if lender else h.mean(0)
        self.f = h - self.mean if centre else h

    def _centred(self, h: Tensor) -> Tensor:
        return (
            h - h.mean(0) if self.centre else h
        )  # a projection: forward, backward and tangent alike

    def _down(self, dh: Tensor, method: str) -> tuple[Tensors, Tensors, Tensors]:
        """The blocks' ``backward`` or ``tangent_backward`` from the cotangent of the last one: dW, dβ, ds."""
        d = self.ops.from_features(dh, self.rest[-1].a)
        parts = []
        for block in reversed(self.blocks):
            *part, d = getattr(block, method)(d)
            parts.append([self.ops.leave(t) for t in part])
        dW, dshift, dscale = (list(t) for t in zip(*reversed(parts), strict=True))
        return dW, dshift, dscale

    def body_backward(self, df: Tensor) -> tuple[Tensors, Tensors, Tensors]:
        """dW, dβ, ds from the cotangent of f, which may be overwritten."""
        if self.lender is None:
            return self._down(self._centred(df), "backward")
        # this body first: its blocks leave with the lender's what they owe them
        dmean = (
            -df.mean(0) * (len(df) / len(self.lender.f)) if self.centre else torch.zeros_like(df[0])
        )
        own, lent = (
            self._down(df, "backward"),
            self.lender._down(dmean.expand_as(self.lender.f), "backward"),
        )
        dW, dshift, dscale = (_sum(left, right) for left, right in zip(own, lent, strict=True))
        return dW, dshift, dscale


class Net(Body):
    """Body and head: forward, backward and Hessian-vector product of Σ_n w_n CE_n at θ."""

    def __init__(self, head: Tensors, *body: Any) -> None:
        super().__init__(*body)
        self.head = head
        self.logits = torch.addmm(head[1], self.f, head[0].t())

    def loss(self, labels: Tensor, weights: Tensor) -> Tensor:
        """CE_n of each image [n]; ready for :meth:`backward` of Σ_n w_n CE_n."""
        logp, self.w = F.log_softmax(self.logits, 1), weights[:, None]
        self.p = logp.exp()
        self.e = self.p - F.one_hot(labels, logp.shape[1])  # ∂CE_n/∂logits
        self.g = self.w * self.e
        return -logp.gather(1, labels[:, None])[:, 0]

    def head_gradient(self) -> Tensors:
        """∇ of the head alone, which a zero head does have."""
        return [self.g.t() @ self.f, self.g.sum(0)]  # gᵀ f,  Σ g

    def backward(self) -> tuple[Tensors, Tensors, Tensors]:
        """∇θ, ∇β, ∇s."""
        dW, dshift, dscale = self.body_backward(self.g @ self.head[0])
        return dW + self.head_gradient(), dshift, dscale

    def hessian_times(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """H v, ∂_v ∇β, ∂_v ∇s, ∂_v CE_n; call after :meth:`backward`."""
        first, *rest = (self.ops.enter(t) for t in v[:LAYERS])
        xd = self.first.tangent(first)
        for block, Wd in zip(self.rest, rest, strict=True):
            xd = block.tangent(xd, Wd)
        fd, Wh, (Whd, bhd) = self._centred(self.ops.features(xd)), self.head[0], v[LAYERS:]
        ld = torch.addmm(bhd, self.f, Whd.t()).addmm_(fd, Wh.t())  # logits′
        gd = self.w * self.p * (ld - (self.p * ld).sum(1, keepdim=True))  # g′ = w p (l′ − ⟨p, l′⟩)
        dW, dshift, dscale = self._down(
            self._centred((gd @ Wh).addmm_(self.g, Whd)), "tangent_backward"
        )
        head = [(gd.t() @ self.f).addmm_(self.g.t(), fd), gd.sum(0)]
        return dW + head, dshift, dscale, (self.e * ld).sum(1)

    def hessian_times_at_zero_head(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """The same where the head is zero: the body's gradient is 0 and logits′ = f Whdᵀ + bhd, so the body's part of
        H v is the ordinary backward of the cotangent g Whd, without a forward tangent; the head's is not asked for."""
        ld = torch.addmm(v[5], self.f, v[4].t())
        dW, dshift, dscale = self._down(self._centred(self.g @ v[4]), "backward")
        return dW + [torch.zeros_like(t) for t in v[LAYERS:]], dshift, dscale, (self.e * ld).sum(1)


def _sum(left: Tensors, right: Tensors) -> Tensors:
    return [a + b for a, b in zip(left, right, strict=True)]
