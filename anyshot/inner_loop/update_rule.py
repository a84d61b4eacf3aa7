"""The one update rule, and its gradient written with autograd: the definition of what every gradient method does.

    θ_k = θ_{k−1} − A ∘ g_k,   g_k = ∇_θ L(θ_{k−1}),   k = 1..K,      A = γ ∘ α,      L = Σ_n w_n CE_n for most methods

Any network will do; :mod:`anyshot.inner_loop.engine.autograd_functions` gives the same gradients for Conv4, several times faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.models.bodies import conv4
from anyshot.models.network import Features, Norm, Parameters, logits


@dataclass(frozen=True)
class InnerProblem:
    """A task's inner problem: minimise Σ_n w_n CE_n(θ) over the support set, from θ_0, by K steps."""

    images: Tensor  #: support, float [N, channels, height, width]
    labels: Tensor  #: int64 [N]
    weights: Tensor  #: w_n, [N]
    theta: Parameters  #: θ_0, head included
    rates: Parameters  #: A = γ ∘ α, each broadcastable to its parameter
    norm: Norm  #: shift β and scale after each normalisation, not adapted
    steps: int  #: K
    centre: bool = False  #: centred features before the head
    transductive: bool = (
        True  #: the query is normalised with its own statistics; else with the support's at θ_K
    )
    body: Features = conv4.features
    views: tuple[
        Tensor, ...
    ] = ()  #: of the support images, which the steps see in turn; none: the images at each

    def view(self, step: int) -> Tensor:
        """The support images as a step sees them: step k the view k, and after the last the first again."""
        return self.views[step % len(self.views)] if self.views else self.images

    def reference(self) -> Tensor | None:
        """The images whose statistics the query takes, if not its own."""
        return None if self.transductive else self.images

    def query_logits(self, theta: Parameters, images: Tensor) -> Tensor:
        """Class scores [M, way] of other images by torch's operators, with their own statistics or the support's."""
        return logits(self.body, theta, self.norm, images, self.centre, self.reference())


def update(
    theta: Parameters,
    gradient: Callable[[Parameters, int], Parameters],
    rates: Parameters,
    steps: int,
    order: int = 2,
) -> Parameters:
    """θ_K. ``gradient(θ, k)`` is g of step k, made for instance with :func:`anyshot.gradient`.

    ``order`` 2 keeps the graph through the gradients, 1 treats them as constants, 0 keeps no graph at all (adaptation
    only; also whenever gradients are switched off).

    >>> square = lambda theta, k: {"x": 2 * theta["x"]}  # the gradient of x²
    >>> update({"x": torch.tensor(1.0)}, square, {"x": torch.tensor(0.25)}, steps=3)
    {'x': tensor(0.1250)}
    """
    missing = [name for name in theta if name not in rates]
    if missing:
        raise AnyshotError(
            f"There is no step size for {', '.join(missing)}; rates has {', '.join(rates)}."
        )
    graph = torch.is_grad_enabled() and order > 0
    with torch.set_grad_enabled(graph):
        theta = theta if graph else {name: value.detach() for name, value in theta.items()}
        for k in range(steps):
            with torch.set_grad_enabled(graph and order == 2):
                g = gradient(theta, k)
            theta = {name: value - rates[name] * g[name] for name, value in theta.items()}
    return theta


def gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    centre: bool,
    body: Features,
) -> tuple[Parameters, Tensor]:
    """:func:`anyshot.inner_loop.gradient` by autograd."""
    graph = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.enable_grad():
        # views, so that a head made of the body does not lead back to it; a zero head has a gradient, too
        at = {
            n: v.view_as(v) if graph and v.requires_grad else _fresh(v).requires_grad_()
            for n, v in theta.items()
        }
        images, labels, weights = (_usable(t) for t in (images, labels, weights))
        norm = Norm(
            [_usable(t) for t in norm.shift],
            None if norm.scale is None else [_usable(t) for t in norm.scale],
        )
        loss = weights @ F.cross_entropy(
            logits(body, at, norm, images, centre), labels, reduction="none"
        )
        found = torch.autograd.grad(
            loss, list(at.values()), create_graph=graph, materialize_grads=True
        )
    return dict(zip(at, found, strict=True)), loss if graph else loss.detach()


def _usable(t: Tensor) -> Tensor:
    """Autograd takes no tensors that inference mode made."""
    return t.clone() if t.is_inference() else t


def _fresh(t: Tensor) -> Tensor:
    """A leaf of its own."""
    return _usable(t).detach()
