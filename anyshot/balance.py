"""φ = (ω̃, γ̃, z̃): its posterior, sampling and KL, and what ω, γ and z do to losses, steps and start.

ω = softmax(ω̃) over classes        γ_l = exp(γ̃_l), 4 convolutions + head        z̃ [4 layers, weight/bias, channels]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.network import CONV_BIASES, CONV_WEIGHTS, HEAD, LAYERS, Norm, Parameters

Phi = Mapping[str, Tensor]  #: values of the variables that are switched on: "omega" [C], "gamma" [5], "z" [256]


@dataclass(frozen=True)
class Posterior:
    """q(φ | D): a Gaussian N(μ, σ²) for each element of each variable that is switched on."""

    mean: Phi
    deviation: Phi

    def sample(self, noise: torch.Generator) -> dict[str, Tensor]:
        """φ̂ = μ + σ ∘ ε, reparametrised; the variables draw from ``noise`` in a fixed order."""
        draw = {k: torch.randn(m.shape, generator=noise).to(m) for k, m in self.mean.items()}
        return {k: m + self.deviation[k] * draw[k] for k, m in self.mean.items()}

    def kl(self) -> Tensor:
        """KL[q ‖ N(0, 1)] = ½ Σ (μ² + σ² − 1 − log σ²)."""
        terms = [m**2 + self.deviation[k] ** 2 - 1 - 2 * self.deviation[k].log() for k, m in self.mean.items()]
        return 0.5 * torch.cat(terms).sum()

    def mean_penalty(self) -> Tensor:
        """½ Σ μ²: what is left of the KL when the variables are only their means (deterministic TAML)."""
        return 0.5 * torch.cat([m**2 for m in self.mean.values()]).sum()


def image_weights(labels: Tensor, way: int, phi: Phi, like: Tensor, class_mean: bool = False) -> Tensor:
    """w_n, [N], so that the inner loss is Σ_n w_n CE_n.

    w_n = ω_c · C / N for an image of class c, with ω_c = 1/C when ω is off, which is the mean cross-entropy.
    ``class_mean`` ("1/N") averages within each class first: C / N becomes 1 / N_c.
    """
    omega = phi["omega"].softmax(0) if "omega" in phi else like.new_full((way,), 1 / way)
    if class_mean:
        return omega[labels] / torch.bincount(labels, minlength=way)[labels]
    return omega[labels] * (way / len(labels))


def scaled_rates(rates: Parameters, phi: Phi) -> Parameters:
    """A = γ ∘ α: layer l's weight and bias share γ_l = exp(γ̃_l)."""
    if "gamma" not in phi:
        return rates
    gamma = phi["gamma"].exp()
    layers = [*zip(CONV_WEIGHTS, CONV_BIASES, strict=True), HEAD]
    return {name: rates[name] * gamma[layer] for layer, names in enumerate(layers) for name in names}


def shifted_start(theta: Parameters, norm: Norm, phi: Phi, site: str = "weight") -> tuple[Parameters, Norm]:
    """θ_0 = θ ∗ z. At the weights: θ ∘ (1 + z̃) per output channel, biases θ + z̃. At the activations: the
    normalised values x̂ become (1 + z̃) ∘ x̂ + β + z̃, through all steps."""
    if "z" not in phi:
        return theta, norm
    z = phi["z"].view(LAYERS, 2, -1)  # [layer, weight/bias, channel]
    if site == "activation":
        shift = [beta + z[layer, 1] for layer, beta in enumerate(norm.shift)]
        return theta, Norm(shift, [1 + z[layer, 0] for layer in range(LAYERS)])
    theta = dict(theta)
    for layer, (weight, bias) in enumerate(zip(CONV_WEIGHTS, CONV_BIASES, strict=True)):
        theta[weight] = theta[weight] * (1 + z[layer, 0]).view(-1, 1, 1, 1)
        theta[bias] = theta[bias] + z[layer, 1]
    return theta, norm
