"""The posterior of a task's balancing variables φ = (ω̃, γ̃, z̃)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.methods.balancing import Phi


@dataclass(frozen=True)
class Posterior:
    """Posterior q(φ | D) of a task: an independent Gaussian N(μ, σ²) for each element of φ.

    Parameters
    ----------
    mean : mapping of str to Tensor
        μ of each variable in use: "omega" [C], "gamma" [layers], "z" [2 · channels of all layers].
    deviation : mapping of str to Tensor
        σ, with the same shapes.

    Examples
    --------
    >>> q = Posterior({"gamma": torch.zeros(5)}, {"gamma": torch.ones(5)})
    >>> q.kl().item()
    0.0
    >>> q.sample(torch.Generator().manual_seed(0))["gamma"].shape
    torch.Size([5])
    """

    mean: Phi
    deviation: Phi

    def sample(self, noise: torch.Generator) -> dict[str, Tensor]:
        """Draw φ̂ = μ + σ ∘ ε, differentiable in μ and σ."""
        epsilon = {
            k: torch.randn(m.shape, generator=noise, dtype=torch.float32).to(m)
            for k, m in self.mean.items()
        }
        return {k: m + self.deviation[k] * epsilon[k] for k, m in self.mean.items()}

    def kl(self) -> Tensor:
        """KL[q ‖ N(0, 1)] = ½ Σ (μ² + σ² − 1 − log σ²)."""
        terms = [
            m**2 + self.deviation[k] ** 2 - 1 - 2 * self.deviation[k].log()
            for k, m in self.mean.items()
        ]
        return 0.5 * torch.cat(terms).sum()

    def mean_penalty(self) -> Tensor:
        """½ Σ μ²: the part of the KL that depends on the mean (deterministic TAML)."""
        return 0.5 * torch.cat([m**2 for m in self.mean.values()]).sum()
