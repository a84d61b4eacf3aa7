"""MAML (Finn et al., 2017): learn the start; every element moves with the same fixed step size."""

from __future__ import annotations

from anyshot.methods.base import GradientMethod, constant_rates
from anyshot.models.network import Parameters


class MAML(GradientMethod):
    """θ_k = θ_{k−1} − α ∇ mean CE, α fixed: 0.5 (CIFAR-FS, multi), 0.1 (miniImageNet)."""

    alpha = 0.5

    def rates(self) -> Parameters:
        return constant_rates(self)
