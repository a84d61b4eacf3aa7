"""Balanced multinomial logistic regression: all folds of a cross-validation in one go, without a line search.

With images z_n, weights w_n and coefficients a_c (intercept b_c hardly penalised) it minimises

    Σ_n w_n CE(softmax(a·z_n + b), y_n) + ½ Σ_c ‖a_c‖² / strength

which is scikit-learn's objective with C = strength, where class_weight="balanced" means w_n = N / (C · n_c). The
softmax's Hessian is at most ½ I (Böhning, 1992), so I / strength + ½ Zᵀ W Z bounds the curvature of every class, every
step and every fold (a fold only takes weights away): one inverse serves all, steps need no line search, and momentum
makes them few.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet

STRENGTH = 10.0  # found on data sets left out, where images have mean length 1
STEPS = 50


@dataclass(frozen=True)
class Logistic:
    """Coefficients [..., r + 1, C]; the last row is the intercept."""

    coefficients: Tensor

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [..., m, C]."""
        return self.logits(points).log_softmax(-1)

    def logits(self, points: ProjectedFeatures) -> Tensor:
        """Their differences tell classes apart, their size how much an image looks like any, [..., m, C]."""
        return points.z @ self.coefficients[..., :-1, :] + self.coefficients[..., -1:, :]


def fit_logistic(support: SupportSet, strength: float = STRENGTH) -> tuple[Logistic, Tensor]:
    """The head, and log-probabilities [N, C] of the support images by heads that were fitted without their fold."""
    both = minimise(
        support.z, support.labels, support.balanced() * support.kept(), support.way, strength
    )
    return Logistic(both.coefficients[0]), support.unseen(both(support.points))


def minimise(
    z: Tensor,
    labels: Tensor,
    weights: Tensor,
    way: int,
    strength: float = STRENGTH,
    steps: int = STEPS,
) -> Logistic:
    """Coefficients for images z [N, r], labels [N] and weights [..., N]; a zero weight leaves an image out.

    Leading dimensions of the weights are fits of their own over the same images.
    """
    x = torch.cat([z, z.new_ones(len(z), 1)], 1)
    penalty = x.new_full((x.shape[1],), 1 / strength)
    penalty[-1] = 1e-5  # next to nothing; the bound must stay invertible
    largest = weights.reshape(-1, len(z)).amax(0)
    bound = torch.linalg.inv(torch.diag(penalty) + 0.5 * (x.t() * largest) @ x)
    target = torch.nn.functional.one_hot(labels, way).to(x)
    a = x.new_zeros(*weights.shape[:-1], x.shape[1], way)
    ahead, t = a, 1.0
    for _ in range(steps):
        slope = (
            x.t() @ (weights.unsqueeze(-1) * ((x @ ahead).softmax(-1) - target))
            + penalty[:, None] * ahead
        )
        new = ahead - bound @ slope
        t, before = (1 + (1 + 4 * t * t) ** 0.5) / 2, t
        ahead, a = new + (before - 1) / t * (new - a), new
    return Logistic(a)
