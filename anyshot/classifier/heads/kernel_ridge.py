"""Kernel ridge regression: the only head with curved class boundaries; it helps with many images.

    k(x, x') = exp(−‖x − x'‖² / 2s),  (K + λ W⁻¹) A = Y − 1/C,  f(x) = k(x, ·) A
    p(c | x) = softmax(T f)

W weighs images so that every class counts the same; s, λ and T are meta-learned. The leave-one-out
output of each image is exact and needs no second fit: y_n − 1/C − A_n / [(K + λ W⁻¹)⁻¹]_nn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet, squared_distances

MAX_IMAGES = 2000  # images that are fitted, equally many of each class; the others are held out


@dataclass(frozen=True)
class KernelPredictor:
    """Fitted images [n, r] with coefficients [n, C]."""

    images: Tensor
    coefficients: Tensor
    width: Tensor
    temperature: Tensor

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [m, C]."""
        distances = squared_distances(points.z, self.images) + points.residual[:, None]
        kernel = (-distances / (2 * self.width)).exp()
        return (self.temperature * kernel @ self.coefficients).log_softmax(1)


class KernelRidge(nn.Module):
    """The meta-learned numbers: width s, ridge λ, temperature T, as logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.log_width = nn.Parameter(torch.tensor(0.7))
        self.log_ridge = nn.Parameter(torch.tensor(-2.3))
        self.log_temperature = nn.Parameter(torch.tensor(1.8))

    def forward(self, support: SupportSet) -> tuple[KernelPredictor, Tensor]:
        """The head, and held-out log-probabilities [N, C] of the support images."""
        target = nn.functional.one_hot(support.labels, support.way).to(support.z)
        rank = (target.cumsum(0) * target).sum(1)  # 1, 2, … within each class
        fitted = (rank <= max(1, MAX_IMAGES // support.way)).nonzero()[:, 0]
        z = support.z[fitted]
        y = target[fitted] - 1 / support.way
        width = self.log_width.exp()
        temperature = self.log_temperature.exp()
        ridge = torch.diag(self.log_ridge.exp() / support.balanced_weights()[fitted])
        kernel = (-squared_distances(z, z) / (2 * width)).exp()
        inverse = torch.linalg.inv(kernel + ridge)
        coefficients = inverse @ y
        head = KernelPredictor(z, coefficients, width, temperature)
        residuals = coefficients / inverse.diagonal()[:, None]
        held_out = (temperature * (y - residuals)).log_softmax(1)
        if len(fitted) == len(target):
            return head, held_out
        return head, head(support.points).index_copy(0, fitted, held_out)
