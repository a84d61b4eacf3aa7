"""The balancing variables φ = (ω̃, γ̃, z̃) of TAML and how they change the inner loop.

ω = softmax(ω̃) over the classes              weights of the class losses
γ_l = exp(γ̃_l) for each layer and the head   multipliers of the learning rates
z̃ for each layer, weight or bias, channel    change of the initial parameters
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from anyshot.models.network import Body, Norm, Parameters

#: values of the variables in use; with Conv4-32 "omega" [C], "gamma" [5], "z" [256]
Phi = Mapping[str, Tensor]


def image_weights(
    labels: Tensor,
    way: int,
    phi: Phi,
    like: Tensor,
    class_mean: bool = False,
    divide_by_shots: bool = False,
) -> Tensor:
    """Weights w_n [N] of the support images in the inner loss Σ_n w_n CE_n.

    w_n = ω_c · C / N for an image of class c. Without ω, ω_c = 1/C: the mean cross-entropy. With
    ``class_mean`` the loss is averaged within each class first: C / N becomes 1 / N_c. With
    ``divide_by_shots`` (the paper's "1/N") the weights are divided by N_c.
    """
    omega = phi["omega"].softmax(0) if "omega" in phi else like.new_full((way,), 1 / way)
    if class_mean:
        return omega[labels] / torch.bincount(labels, minlength=way)[labels]
    weights = omega[labels] * (way / len(labels))
    return weights / torch.bincount(labels)[labels] if divide_by_shots else weights


def gamma_names(body: Body, adapt_body: bool = True) -> tuple[str, ...]:
    """What each element of γ̃ acts on: the adapted layers of the body, then the head's parts."""
    layers = [group for group in body.layer_parameters if group != "head"]
    return (*(layers if adapt_body else ()), *body.head_parts)


def variable_sizes(body: Body, adapt_body: bool = True) -> dict[str, int]:
    """Number of elements of each variable; of ω̃, per class."""
    return {
        "omega": 1,
        "gamma": len(gamma_names(body, adapt_body)),
        "z": 2 * sum(layer.channels for layer in body.layers),
    }


def apply_gamma(rates: Parameters, phi: Phi, body: Body, adapt_body: bool = True) -> Parameters:
    """Multiply the learning rates α by γ: all parameters of layer l share γ_l = exp(γ̃_l).

    Each part of the head's weight has its own γ. The head's bias has their geometric mean.
    """
    if "gamma" not in phi:
        return rates
    widths = list(body.head_parts.values())
    of_body, of_head = phi["gamma"].tensor_split([-len(widths)])
    of_weight = of_head.exp()
    if len(widths) > 1:
        of_weight = of_weight.repeat_interleave(torch.tensor(widths, device=of_weight.device))
    groups = [names for group, names in body.layer_parameters.items() if group != "head"]
    known = {name for names in body.layer_parameters.values() for name in names}
    return {
        **{  # a head may have further parameters
            name: rate if name in known else rate * of_head.mean().exp()
            for name, rate in rates.items()
        },
        **{
            name: rates[name] * gamma
            for gamma, names in zip(of_body.exp(), groups if adapt_body else (), strict=True)
            for name in names
        },
        "head_weight": rates["head_weight"] * of_weight,
        "head_bias": rates["head_bias"] * of_head.mean().exp(),
    }


def apply_z(
    theta: Parameters, norm: Norm, phi: Phi, body: Body, site: str = "weight"
) -> tuple[Parameters, Norm]:
    """Initial parameters θ_0 = θ ∗ z of the body, and its normalisations.

    At the weights: θ ∘ (1 + z̃) per output channel, and θ + z̃ for biases. At the activations: the
    normalised values x̂ become (1 + z̃) ∘ x̂ + β + z̃ in all steps.
    """
    if "z" not in phi:
        return theta, norm
    # z̃ holds for each layer in turn the part of its weight and the part of its bias
    z = phi["z"].split([layer.channels for layer in body.layers for _ in range(2)])
    scales = [1 + part for part in z[::2]]
    shifts = z[1::2]
    if site == "activation":
        betas = [beta + shift for beta, shift in zip(norm.shift, shifts, strict=True)]
        return theta, replace(norm, shift=betas, scale=scales)
    theta = dict(theta)
    for layer, scale, shift in zip(body.layers, scales, shifts, strict=True):
        weight = theta[layer.weight]
        theta[layer.weight] = weight * broadcast_over_outputs(scale, weight)
        if layer.bias:
            theta[layer.bias] = theta[layer.bias] + shift
    return theta, norm


def broadcast_over_outputs(values: Tensor, weight: Tensor) -> Tensor:
    """Reshape values [outputs] so that they multiply a weight [outputs, …]."""
    return values.view(-1, *[1] * (weight.dim() - 1))
