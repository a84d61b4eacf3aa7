"""The one update rule, written with autograd: the definition of what every gradient method does inside a task.

    θ_k = θ_{k−1} − A ∘ ∇ L(θ_{k−1}),   k = 1..K,      A = γ ∘ α,      L = Σ_n w_n CE_n for most methods

Any network and any loss will do; :mod:`anyshot.inner.engine` gives the same numbers for Conv4, several times faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.bodies import conv4
from anyshot.network import Features, Norm, Parameters, logits


@dataclass(frozen=True)
class Inner:
    """A task's inner problem: minimise Σ_n w_n CE_n(θ) over the support set, from θ_0, by K steps."""

    images: Tensor  #: support, float [N, channels, height, width]
    labels: Tensor  #: int64 [N]
    weights: Tensor  #: w_n, [N]
    theta: Parameters  #: θ_0, head included
    rates: Parameters  #: A = γ ∘ α, each broadcastable to its parameter
    norm: Norm  #: shift β and scale after each normalisation, not adapted
    steps: int  #: K
    centre: bool = False  #: centred features before the head
    transductive: bool = True  #: the query is normalised with its own statistics; else with the support's at θ_K
    body: Features = conv4.features

    def reference(self) -> Tensor | None:
        """The images whose statistics the query takes, if not its own."""
        return None if self.transductive else self.images

    def support_logits(self, theta: Parameters) -> Tensor:
        """Class scores [N, way] of the support set."""
        return logits(self.body, theta, self.norm, self.images, self.centre)

    def query_logits(self, theta: Parameters, images: Tensor) -> Tensor:
        """Class scores [M, way] of other images, normalised with their own statistics or with the support's."""
        return logits(self.body, theta, self.norm, images, self.centre, self.reference())


def update(
    theta: Parameters, loss: Callable[[Parameters, int], Tensor], rates: Parameters, steps: int, order: int = 2
) -> Parameters:
    """θ_K. ``loss(θ, k)`` is the loss of step k; ``order`` 2 keeps the graph through the gradients, 1 treats them as
    constants, 0 keeps no graph at all (adaptation only; also whenever gradients are switched off)."""
    if order == 0 or not torch.is_grad_enabled():
        order = 0
        theta = {name: value.detach() for name, value in theta.items()}
    for k in range(steps):
        with torch.enable_grad():
            if order < 2:
                theta_k = {name: value.detach().requires_grad_() for name, value in theta.items()}
            else:  # a head made of the body must not lead back to it: views; a zero head still needs a gradient here
                theta_k = {
                    n: v.view_as(v) if v.requires_grad else v.detach().requires_grad_() for n, v in theta.items()
                }
            gradients = torch.autograd.grad(
                loss(theta_k, k), list(theta_k.values()), create_graph=order == 2, materialize_grads=True
            )
        start = theta_k if order == 2 else theta
        theta = {name: start[name] - rates[name] * g for name, g in zip(theta_k, gradients, strict=True)}
        if order == 0:
            theta = {name: value.detach() for name, value in theta.items()}
    return theta


def weighted_loss(inner: Inner) -> Callable[[Parameters, int], Tensor]:
    """L(θ) = Σ_n w_n CE_n(θ) on the support set."""

    def loss(theta: Parameters, _: int) -> Tensor:
        return inner.weights @ F.cross_entropy(inner.support_logits(theta), inner.labels, reduction="none")

    return loss


def adapt(inner: Inner, order: int = 0) -> Parameters:
    """θ_K of a task's inner problem."""
    return update(inner.theta, weighted_loss(inner), inner.rates, inner.steps, order)


def query_loss(inner: Inner, images: Tensor, labels: Tensor, order: int = 2) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of the query set at θ_K, differentiable in θ_0, A, w, β and scale, and the query's logits
    [M, way] (detached)."""
    scores = inner.query_logits(adapt(inner, order), images)
    return F.cross_entropy(scores, labels), scores.detach()
