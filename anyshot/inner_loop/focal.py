"""Focal loss (Lin et al., ICCV 2017): easy images count less.

    F(CE) = (1 − p)^γ CE,    p = exp(−CE), the probability of the right class

F depends on an image through its cross-entropy alone. So the gradient of the focal loss is that of
a weighted cross-entropy, Σ_n w_n F'(CE_n) ∇CE_n, and the engine computes it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def focal_loss(losses: Tensor, gamma: float) -> Tensor:
    """F(CE_n) of cross-entropies [N].

    >>> focal_loss(torch.tensor([0.0, 0.6931472]), gamma=2.0)
    tensor([0.0000, 0.1733])
    """
    return (-torch.expm1(-losses)) ** gamma * losses


def focal_slope(losses: Tensor, gamma: float) -> Tensor:
    """F'(CE_n) [N], for γ of at least 1; differentiable also where CE_n = 0."""
    # the derivative of (1 − p)^(γ − 1) is infinite at p = 1 if γ < 2
    losses = losses.clamp_min(torch.finfo(losses.dtype).tiny)
    wrong = -torch.expm1(-losses)  # 1 − p
    return wrong**gamma + gamma * wrong ** (gamma - 1) * (-losses).exp() * losses
