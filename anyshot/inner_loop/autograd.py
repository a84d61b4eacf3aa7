"""Loss, gradient and features by autograd: the definition that the engine is tested against."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from anyshot.models.bodies import conv4
from anyshot.models.network import (
    Features,
    Head,
    Norm,
    Parameters,
    embed,
    linear_head,
    logits,
)


def gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    centre: bool,
    body: Features,
    head: Head = linear_head,
) -> tuple[Parameters, Tensor]:
    """:func:`anyshot.gradient` by autograd, for any body; differentiable any number of times."""
    if transforms_active():

        def loss_at(at: Parameters) -> Tensor:
            return support_loss(at, images, labels, weights, norm, centre, None, body, head)

        return torch.func.grad_and_value(loss_at)(theta)
    graph = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.enable_grad():
        # Constant parameters (a zero head) get a gradient, too.
        at = {
            name: value.view_as(value)
            if graph and value.requires_grad
            else _without_inference_mode(value).detach().requires_grad_()
            for name, value in theta.items()
        }
        images, labels, weights = (_without_inference_mode(t) for t in (images, labels, weights))
        norm = _norm_without_inference_mode(norm)
        loss = support_loss(at, images, labels, weights, norm, centre, None, body, head)
        gradients = torch.autograd.grad(
            loss, list(at.values()), create_graph=graph, materialize_grads=True
        )
    return dict(zip(at, gradients, strict=True)), loss if graph else loss.detach()


def support_loss(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    centre: bool,
    reference: Tensor | None = None,
    body: Features = conv4.features,
    head: Head = linear_head,
) -> Tensor:
    """Σ_n w_n CE_n."""
    losses = cross_entropies(logits(body, theta, norm, images, centre, reference, head), labels)
    if not autocast_active(losses.device):
        return weights @ losses
    with torch.autocast(losses.device.type, enabled=False):  # a sum in full precision
        return weights @ losses


def cross_entropies(scores: Tensor, labels: Tensor) -> Tensor:
    """CE_n [n], in full precision under autocast."""
    if autocast_active(scores.device):
        scores = scores.float()
    return F.cross_entropy(scores, labels, reduction="none")


def autocast_active(device: torch.device) -> bool:
    """Whether torch.autocast lowers the precision of operators on this device."""
    available = torch.amp.is_autocast_available(device.type)
    return available and torch.is_autocast_enabled(device.type)


def transforms_active() -> bool:
    """Whether this code runs inside torch.func.grad, vmap, jvp or another torch.func transform."""
    return torch._C._are_functorch_transforms_active()


def features(
    theta: Parameters, norm: Norm, images: Tensor, centre: bool, reference: Tensor | None
) -> Tensor:
    """Conv4's features."""
    return embed(conv4.features, theta, norm, images, centre, reference)


def differentiable_views(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return views to differentiate by, although one tensor may be computed from another.

    Example: a head made of the body's features. The body's gradient must not include the head's.
    """
    return [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in tensors]


def _norm_without_inference_mode(norm: Norm) -> Norm:
    """The normalisation, of whatever class, with tensors that autograd accepts."""
    changed = copy.copy(norm)  # keeps the class
    for name, value in vars(norm).items():
        converted = tree_map_only(Tensor, _without_inference_mode, value)
        object.__setattr__(changed, name, converted)
    return changed


def _without_inference_mode(t: Tensor) -> Tensor:
    """A tensor that autograd accepts: it refuses those made in inference mode."""
    return t.clone() if t.is_inference() else t
