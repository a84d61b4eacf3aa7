"""Bayesian TAML (Lee et al., 2020): Meta-SGD whose losses, steps and start are balanced by φ, read off the task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.core.settings import BALANCING, MethodSettings
from anyshot.methods.balancing import Phi, Posterior
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.task_encoder import TaskEncoder
from anyshot.models.network import Body


class TAML(MetaSGD):
    """θ_0 = θ ∗ z,  θ_k = θ_{k−1} − γ ∘ α ∘ Σ_c ω_c ∇L_c,  (ω, γ, z) ~ q(φ | D; ψ)."""

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        self.encoder = TaskEncoder(settings, body, generator) if settings.balance else None
        self.log_gain = nn.ParameterDict(
            {
                name: torch.tensor(gain).log()
                for name, gain in zip(BALANCING, settings.gains, strict=False)
            }
        )

    def posterior(self, images: Tensor, labels: Tensor, way: int) -> Posterior | None:
        return None if self.encoder is None else self.encoder(images, labels, way)

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """Gains scale what the variables do, while the prior N(0, 1) stays on the variables themselves."""
        gained = {
            k: v * self.log_gain[k].exp() if k in self.log_gain else v for k, v in phi.items()
        }
        return super().apply_gains_and_priors(gained, shots)
