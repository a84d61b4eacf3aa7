"""φ = (ω̃, γ̃, z̃): its posterior, sampling and KL, and what ω, γ and z do to losses, steps and start.

ω = softmax(ω̃) over classes        γ_l = exp(γ̃_l), each layer and the head        z̃ [each unit, weight/bias, channels]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.models.network import Body, Norm, Parameters

Phi = Mapping[
    str, Tensor
]  #: values of the variables that are switched on; with Conv4-32 omega [C], gamma [5], z [256]


@dataclass(frozen=True)
class Posterior:
    """q(φ | D): a Gaussian N(μ, σ²) for each element of each variable that is switched on."""

    mean: Phi
    deviation: Phi

    def sample(self, noise: torch.Generator) -> dict[str, Tensor]:
        """φ̂ = μ + σ ∘ ε, reparametrised; the variables draw from ``noise`` in a fixed order."""
        draw = {
            k: torch.randn(m.shape, generator=noise, dtype=torch.float32).to(m)
            for k, m in self.mean.items()
        }
        return {k: m + self.deviation[k] * draw[k] for k, m in self.mean.items()}

    def kl(self) -> Tensor:
        """KL[q ‖ N(0, 1)] = ½ Σ (μ² + σ² − 1 − log σ²)."""
        terms = [
            m**2 + self.deviation[k] ** 2 - 1 - 2 * self.deviation[k].log()
            for k, m in self.mean.items()
        ]
        return 0.5 * torch.cat(terms).sum()

    def mean_penalty(self) -> Tensor:
        """½ Σ μ²: what is left of the KL when the variables are only their means (deterministic TAML)."""
        return 0.5 * torch.cat([m**2 for m in self.mean.values()]).sum()


def image_weights(
    labels: Tensor, way: int, phi: Phi, like: Tensor, class_mean: bool = False
) -> Tensor:
    """w_n, [N], so that the inner loss is Σ_n w_n CE_n.

    w_n = ω_c · C / N for an image of class c, with ω_c = 1/C when ω is off, which is the mean cross-entropy.
    ``class_mean`` ("1/N") averages within each class first: C / N becomes 1 / N_c.
    """
    omega = phi["omega"].softmax(0) if "omega" in phi else like.new_full((way,), 1 / way)
    if class_mean:
        return omega[labels] / torch.bincount(labels, minlength=way)[labels]
    return omega[labels] * (way / len(labels))


def variable_sizes(body: Body) -> dict[str, int]:
    """How many numbers each variable has; of ω̃, one a class."""
    return {
        "omega": 1,
        "gamma": len(body.layer_parameters),
        "z": 2 * sum(unit.channels for unit in body.layers),
    }


def apply_gamma(rates: Parameters, phi: Phi, body: Body) -> Parameters:
    """A = γ ∘ α: the parameters of layer l share γ_l = exp(γ̃_l)."""
    if "gamma" not in phi:
        return rates
    gamma = phi["gamma"].exp()
    return {
        name: rates[name] * gamma[layer]
        for layer, names in enumerate(body.layer_parameters.values())
        for name in names
    }


def apply_z(
    theta: Parameters, norm: Norm, phi: Phi, body: Body, site: str = "weight"
) -> tuple[Parameters, Norm]:  # fmt: skip
    """θ_0 = θ ∗ z. At the weights: θ ∘ (1 + z̃) per output channel, biases θ + z̃. At the activations: the
    normalised values x̂ become (1 + z̃) ∘ x̂ + β + z̃, through all steps."""
    if "z" not in phi:
        return theta, norm
    z = phi["z"].split(
        [unit.channels for unit in body.layers for _ in range(2)]
    )  # unit by unit: weight's, bias's
    scales, shifts = [1 + part for part in z[::2]], z[1::2]
    if site == "activation":
        return theta, Norm(
            [beta + shift for beta, shift in zip(norm.shift, shifts, strict=True)], scales
        )
    theta = dict(theta)
    for unit, scale, shift in zip(body.layers, scales, shifts, strict=True):
        theta[unit.weight] = theta[unit.weight] * broadcast_over_outputs(scale, theta[unit.weight])
        if unit.bias:
            theta[unit.bias] = theta[unit.bias] + shift
    return theta, norm


def broadcast_over_outputs(values: Tensor, weight: Tensor) -> Tensor:
    """Values [outputs], shaped to be multiplied with a weight [outputs, …]."""
    return values.view(-1, *[1] * (weight.dim() - 1))
