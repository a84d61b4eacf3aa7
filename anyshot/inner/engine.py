"""The whole network and the adjoint walk back through the inner loop: exact meta-gradients without autograd.

    inner   θ_k = θ_{k−1} − A ∘ g_k,   g_k = ∇ Σ_n w_n CE_n(θ_{k−1}),   k = 1..K
    outer   L = mean CE of the query set at θ_K
    walk    λ = dL/dθ_K, then for k = K..1:
            dL/dA −= λ ∘ g_k,   v = −A ∘ λ,   dL/dw_n += ∂_v CE_n,   dL/dβ += ∂_v ∂_β,   dL/ds += ∂_v ∂_s,   λ += H_k v

H_k v and the mixed terms come from one forward-over-reverse sweep over the blocks of step k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.bodies.conv4 import LAYERS
from anyshot.inner.blocks import Block, FirstBlock, Pictures, Statistics

Tensors = list[Tensor]


@dataclass
class Problem:
    """An inner problem as the engine wants it: detached lists, parameters in the order W1..W4, head weight, bias."""

    images: Tensor  #: [N, channels, height, width], channels-last
    labels: Tensor  #: [N]
    weights: Tensor  #: w_n, [N]
    theta: Tensors  #: θ_0
    rates: Tensors  #: A, broadcastable
    shift: Tensors  #: β of each block
    scale: Tensors  #: s > 0 of each block
    steps: int
    centre: bool
    transductive: bool  #: the query has its own statistics, not the support's
    zero_head: bool  #: the head starts at zero and nobody asks for its gradient
    ops: ModuleType  #: what does the work: :mod:`.ops` or :mod:`.loops`
    pictures: Pictures | None = (
        None  #: the images once more, as ``ops`` wants them; made when needed, shared by samples
    )


@dataclass
class Gradients:
    """dL/d· of each input; the same lists as in :class:`Problem`."""

    theta: Tensors
    rates: Tensors
    weights: Tensor
    shift: Tensors
    scale: Tensors


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
        first, *rest = ([ops.enter(t) for t in block] for block in zip(weights, shift, scale, strict=True))
        lenders: Sequence[Any] = lender.blocks if lender else [None] * LAYERS
        statistics = [Statistics(block) for block in lenders]
        self.first = FirstBlock(ops, statistics[0], pictures, *first)
        self.rest = [Block(ops, lent, *block) for lent, block in zip(statistics[1:], rest, strict=True)]
        self.blocks: list[Any] = [self.first, *self.rest]
        x = self.first.forward()
        for block in self.rest:
            x = block.forward(x)
        h = ops.features(x)
        self.mean: Tensor = lender.mean if lender else h.mean(0)
        self.f = h - self.mean if centre else h

    def _centred(self, h: Tensor) -> Tensor:
        return h - h.mean(0) if self.centre else h  # a projection: forward, backward and tangent alike

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
        dmean = -df.mean(0) * (len(df) / len(self.lender.f)) if self.centre else torch.zeros_like(df[0])
        own, lent = self._down(df, "backward"), self.lender._down(dmean.expand_as(self.lender.f), "backward")
        dW, dshift, dscale = (_sum(left, right) for left, right in zip(own, lent, strict=True))
        return dW, dshift, dscale


class Net(Body):
    """Body and head: forward, backward and Hessian-vector product of Σ_n w_n CE_n at θ."""

    def __init__(self, problem: Problem, theta: Tensors, pictures: Pictures, lender: Net | None = None) -> None:
        super().__init__(
            problem.ops, theta[:LAYERS], problem.shift, problem.scale, problem.centre, pictures, lender
        )  # fmt: skip
        self.theta = theta
        self.logits = torch.addmm(theta[5], self.f, theta[4].t())

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
        dW, dshift, dscale = self.body_backward(self.g @ self.theta[4])
        return dW + self.head_gradient(), dshift, dscale

    def hessian_times(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """H v, ∂_v ∇β, ∂_v ∇s, ∂_v CE_n; call after :meth:`backward`."""
        first, *rest = (self.ops.enter(t) for t in v[:LAYERS])
        xd = self.first.tangent(first)
        for block, Wd in zip(self.rest, rest, strict=True):
            xd = block.tangent(xd, Wd)
        fd, Wh, (Whd, bhd) = self._centred(self.ops.features(xd)), self.theta[4], v[LAYERS:]
        ld = torch.addmm(bhd, self.f, Whd.t()).addmm_(fd, Wh.t())  # logits′
        gd = self.w * self.p * (ld - (self.p * ld).sum(1, keepdim=True))  # g′ = w p (l′ − ⟨p, l′⟩)
        dW, dshift, dscale = self._down(self._centred((gd @ Wh).addmm_(self.g, Whd)), "tangent_backward")
        head = [(gd.t() @ self.f).addmm_(self.g.t(), fd), gd.sum(0)]
        return dW + head, dshift, dscale, (self.e * ld).sum(1)

    def hessian_times_at_zero_head(self, v: Tensors) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """The same where the head is zero: the body's gradient is 0 and logits′ = f Whdᵀ + bhd, so the body's part of
        H v is the ordinary backward of the cotangent g Whd, without a forward tangent; the head's is not asked for."""
        ld = torch.addmm(v[5], self.f, v[4].t())
        dW, dshift, dscale = self._down(self._centred(self.g @ v[4]), "backward")
        return dW + [torch.zeros_like(t) for t in v[LAYERS:]], dshift, dscale, (self.e * ld).sum(1)


def inner_loop(problem: Problem, gradients: list[Tensors] | None = None, nets: list[Net] | None = None) -> Tensors:
    """θ_K; the lists, if given, receive g_k and the network of each step."""
    theta = problem.theta
    for k in range(problem.steps):
        net = support(problem, theta)
        net.loss(problem.labels, problem.weights)
        if k == 0 and problem.zero_head:  # a zero head sends nothing down: the body's first gradient is 0
            g = [t.new_zeros(()) for t in theta[:LAYERS]] + net.head_gradient()
        else:
            g = net.backward()[0]
        theta = [torch.addcmul(t, a, d, value=-1) for t, a, d in zip(theta, problem.rates, g, strict=True)]
        if gradients is not None:
            gradients.append(g)
        if nets is not None:
            nets.append(net)
    return theta


def query(problem: Problem, theta: Tensors, images: Tensor | Pictures) -> Net:
    """The network at θ on the query set, normalised with the query set's own statistics or with the support's."""
    pictures = images if isinstance(images, Pictures) else Pictures(problem.ops, images)
    return Net(problem, theta, pictures, None if problem.transductive else support(problem, theta))


def support(problem: Problem, theta: Tensors) -> Net:
    """The network at θ on the support set."""
    problem.pictures = problem.pictures or Pictures(problem.ops, problem.images)
    return Net(problem, theta, problem.pictures)


def meta_gradient(problem: Problem, images: Tensor, labels: Tensor, order: int = 2) -> tuple[Tensor, Tensor, Gradients]:
    """Query loss, query logits and the gradients; ``order`` 1 treats every g_k as a constant."""
    gradients: list[Tensors] = []
    nets: list[Net] = []
    net = query(problem, inner_loop(problem, gradients, nets if order == 2 else None), images)
    ce = net.loss(labels, images.new_full((len(labels),), 1 / len(labels)))
    lam, dshift, dscale = net.backward()  # λ = dL/dθ_K
    loss, logits, dw = ce.mean(), net.logits, torch.zeros_like(problem.weights)
    dA = [torch.zeros_like(t) for t in lam]
    for k in reversed(range(problem.steps)):
        for d, a, g in zip(dA, lam, gradients.pop(), strict=True):
            d.addcmul_(a, g, value=-1)  # dL/dA −= λ ∘ g_k
        if order == 2:
            net = nets.pop()  # forgets the step before: memory falls as the walk goes down
            v = [(a * b).neg_() for a, b in zip(problem.rates, lam, strict=True)]  # v = −A ∘ λ
            product = net.hessian_times_at_zero_head if k == 0 and problem.zero_head else net.hessian_times
            Hv, db, ds, ced = product(v)
            lam = _sum(lam, Hv)  # λ += H v
            dshift, dscale, dw = _sum(dshift, db), _sum(dscale, ds), dw + ced
    dA = [d.sum_to_size(a.shape) for d, a in zip(dA, problem.rates, strict=True)]
    return loss, logits, Gradients(lam, dA, dw, dshift, dscale)


def _sum(left: Tensors, right: Tensors) -> Tensors:
    return [a + b for a, b in zip(left, right, strict=True)]
