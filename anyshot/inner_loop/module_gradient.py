"""The support gradient of a body that is made of a module."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from anyshot.inner_loop.autograd import support_loss
from anyshot.inner_loop.functional import loss_gradient
from anyshot.models.network import Features, Norm, Parameters


def module_gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    centre: bool,
    body: Features,
) -> tuple[Parameters, Tensor]:
    """:func:`anyshot.gradient`; the activations of only one inner step are in memory at a time.

    A step is computed again in the backward pass, with the same dropout: it has a seed.
    """

    def loss(theta: Parameters, images: Tensor, weights: Tensor, constants: Parameters) -> Tensor:
        own = replace(norm, constants=constants)
        return support_loss(theta, images, labels, weights, own, centre, body=body)

    return loss_gradient(loss, theta, images, weights, dict(norm.constants))
