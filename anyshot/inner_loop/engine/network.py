"""The whole network by hand-derived passes: forward, backward and Hessian-vector product.

With ℓ = Σ_n w_n CE_n(θ, β, s) and a direction v of θ, one forward-over-reverse sweep over the
blocks gives H v, ∂_v CE_n, ∂_v ∇_β ℓ and ∂_v ∇_s ℓ. These make up the backward pass of g = ∇_θ ℓ
in :mod:`.autograd_functions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop.engine.blocks import (
    BatchStatistics,
    Block,
    FirstBlock,
    ImagePatches,
    StoredStatistics,
)
from anyshot.models.bodies.conv4 import LAYERS

Tensors = list[Tensor]


class Body:
    """Forward and backward of the blocks at θ, up to the features f [n, width].

    The activations are kept for the Hessian-vector product. With a ``source`` all batch statistics
    are those of that body (another set of images, the same θ), and the backward pass goes through
    both. With ``stored`` means and variances these are used instead, as constants. The
    Hessian-vector product exists only without a source and without stored statistics.
    """

    def __init__(
        self,
        ops: ModuleType,
        weights: Tensors,
        shift: Tensors,
        scale: Tensors,
        centre: bool,
        patches: ImagePatches,
        source: Body | None = None,
        stored: Sequence[tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        self.ops = ops
        self.centre = centre
        self.source = source
        self.images = patches.images
        first, *rest = (
            [ops.to_backend(t) for t in block] for block in zip(weights, shift, scale, strict=True)
        )
        sources: Sequence[Any] = source.blocks if source else [None] * LAYERS
        if stored is not None:
            sources = [
                StoredStatistics(ops.to_backend(mean), ops.inverse_deviation(ops.to_backend(var)))
                for mean, var in stored
            ]
        statistics = [BatchStatistics(block) for block in sources]
        self.first = FirstBlock(ops, statistics[0], patches, *first)
        self.rest = [
            Block(ops, own, *block) for own, block in zip(statistics[1:], rest, strict=True)
        ]
        self.blocks: list[Any] = [self.first, *self.rest]
        x = self.first.forward()
        for block in self.rest:
            x = block.forward(x)
        h = ops.features(x)
        self.mean: Tensor = source.mean if source else h.mean(0)
        self.f = h - self.mean if centre else h

    @property
    def reference(self) -> Tensor | None:
        """The images whose batch statistics are used, if not its own."""
        return None if self.source is None else self.source.images

    def _project(self, h: Tensor) -> Tensor:
        """Centre features if asked to: a projection, the same in all four passes."""
        return h - h.mean(0) if self.centre else h

    def _backward_through_blocks(self, dh: Tensor, method: str) -> tuple[Tensors, Tensors, Tensors]:
        """dW, dβ and ds by the blocks' ``backward`` or ``tangent_backward``, last block first."""
        d = self.ops.from_features(dh, self.rest[-1].a)
        parts = []
        for block in reversed(self.blocks):
            *part, d = getattr(block, method)(d)
            parts.append([self.ops.from_backend(t) for t in part])
        dW, dshift, dscale = (list(t) for t in zip(*reversed(parts), strict=True))
        return dW, dshift, dscale

    def body_backward(self, df: Tensor) -> tuple[Tensors, Tensors, Tensors]:
        """dW, dβ, ds from the cotangent of f, which may be overwritten."""
        source = self.source
        if source is None:
            return self._backward_through_blocks(self._project(df), "backward")
        if self.centre:
            dmean = -df.mean(0) * (len(df) / len(source.f))
        else:
            dmean = torch.zeros_like(df[0])
        # This body first: its blocks add what flows through the statistics to the source's blocks.
        own = self._backward_through_blocks(df, "backward")
        others = source._backward_through_blocks(dmean.expand_as(source.f), "backward")
        dW, dshift, dscale = (_sum(left, right) for left, right in zip(own, others, strict=True))
        return dW, dshift, dscale


class Net(Body):
    """Body and head: forward, backward and Hessian-vector product of Σ_n w_n CE_n at θ."""

    def __init__(self, head: Tensors, *body: Any) -> None:
        super().__init__(*body)
        self.head = head
        self.logits = torch.addmm(head[1], self.f, head[0].t())

    def loss(self, labels: Tensor, weights: Tensor) -> Tensor:
        """CE_n [n]; call before :meth:`backward` of Σ_n w_n CE_n."""
        logp = F.log_softmax(self.logits, 1)
        self.w = weights[:, None]
        self.p = logp.exp()
        self.e = self.p - F.one_hot(labels, logp.shape[1])  # ∂CE_n/∂logits
        self.g = self.w * self.e
        return -logp.gather(1, labels[:, None])[:, 0]

    def head_gradient(self) -> Tensors:
        """The head's gradient, which is not zero for a zero head."""
        return [self.g.t() @ self.f, self.g.sum(0)]  # gᵀ f,  Σ g

    def backward(self) -> tuple[Tensors, Tensors, Tensors]:
        """∇θ, ∇β, ∇s."""
        dW, dshift, dscale = self.body_backward(self.g @ self.head[0])
        return dW + self.head_gradient(), dshift, dscale

    def hessian_times(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """H v, ∂_v ∇β, ∂_v ∇s, ∂_v CE_n; call after :meth:`backward`."""
        first, *rest = (self.ops.to_backend(t) for t in v[:LAYERS])
        xd = self.first.tangent(first)
        for block, Wd in zip(self.rest, rest, strict=True):
            xd = block.tangent(xd, Wd)
        fd = self._project(self.ops.features(xd))
        Wh = self.head[0]
        Whd, bhd = v[LAYERS:]
        ld = torch.addmm(bhd, self.f, Whd.t()).addmm_(fd, Wh.t())  # logits′
        gd = self.w * self.p * (ld - (self.p * ld).sum(1, keepdim=True))  # g′ = w p (l′ − ⟨p, l′⟩)
        dfd = self._project((gd @ Wh).addmm_(self.g, Whd))
        dW, dshift, dscale = self._backward_through_blocks(dfd, "tangent_backward")
        head = [(gd.t() @ self.f).addmm_(self.g.t(), fd), gd.sum(0)]
        return dW + head, dshift, dscale, (self.e * ld).sum(1)

    def hessian_times_at_zero_head(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """The same for a zero head that needs no gradient.

        The body's gradient is 0 and logits′ = f Whdᵀ + bhd. So the body's part of H v is the
        ordinary backward pass of the cotangent g Whd, without a forward tangent.
        """
        Whd, bhd = v[LAYERS:]
        ld = torch.addmm(bhd, self.f, Whd.t())
        dW, dshift, dscale = self._backward_through_blocks(self._project(self.g @ Whd), "backward")
        return dW + [torch.zeros_like(t) for t in v[LAYERS:]], dshift, dscale, (self.e * ld).sum(1)


def _sum(left: Tensors, right: Tensors) -> Tensors:
    return [a + b for a, b in zip(left, right, strict=True)]
