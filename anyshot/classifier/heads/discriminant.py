"""A Bayesian linear discriminant in closed form; its seven prior parameters are meta-learned.

    m_0   the mean of the class means z̄_c
    m_c = (κ m_0 + n_c z̄_c) / (κ + n_c)                small classes are shrunk towards m_0
    τ   = (ν_0 τ_0 + Σ_n ‖r_n‖²) / (ν_0 + N − C)      spread of the task; r: residuals
    Σ   = (ν τ I / d + Σ_n r_n r_nᵀ) / (ν + N − C)
    log p(z | c) = −½ (z − m_c)ᵀ Σ⁻¹ (z − m_c) / v_c − λ log v_c,  v_c = 1 + ρ / (κ + n_c)

The logarithms are multiplied by a temperature, and by 1280 / d: the squared distances grow with the
number of features d, but what they tell about an image does not. Each image's leave-one-out score
(τ kept) is exact and needs no second fit: its class mean moves along its own residual, and Σ loses
one rank (Sherman–Morrison).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet, squared_distances

USUAL_WIDTH = 1280  # features of the view that the temperatures below are for
START = {
    "log_kappa": 1.8,
    "log_nu": 4.4,
    "log_nu_zero": 2.0,
    "log_tau": 0.4,
    "log_rho": -0.3,
    "lam": -0.2,
    "log_temperature": -3.2,
}


@dataclass(frozen=True)
class GaussianPosterior:
    """A task's posterior, in coordinates where Σ = I."""

    whiten: Tensor  # [r, r]: z ↦ z @ whiten
    residual_precision: Tensor  # inverse variance outside the span of the support images
    means: Tensor  # [C, r]
    scale: Tensor  # [C], v_c
    lam: Tensor
    temperature: Tensor
    held_out_distance: Tensor  # [N], squared leave-one-out distance of each image to its class

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [m, C]."""
        return log_probabilities(
            self.squared_distances(points), self.scale, self.lam, self.temperature
        )

    def squared_distances(self, points: ProjectedFeatures) -> Tensor:
        """Squared distances [m, C] to the classes, in units of their variance."""
        inside = squared_distances(points.z @ self.whiten, self.means)
        return (inside + (self.residual_precision * points.residual)[:, None]) / self.scale

    def centre_distances(self, points: ProjectedFeatures) -> Tensor:
        """Squared distances [m] to the mean of all classes, in units of the classes' variance."""
        inside = squared_distances(points.z @ self.whiten, self.means.mean(0, keepdim=True))
        return inside[:, 0] + self.residual_precision * points.residual


class Discriminant(nn.Module):
    """The meta-learned prior: seven numbers."""

    lam: Tensor

    def __init__(self, **start: float) -> None:
        super().__init__()
        for name, value in {**START, **start}.items():
            setattr(self, name, nn.Parameter(torch.tensor(value)))

    def value(self, name: str) -> Tensor:
        """A positive parameter; its logarithm is stored."""
        return getattr(self, f"log_{name}").exp()

    def forward(self, support: SupportSet) -> tuple[GaussianPosterior, Tensor]:
        """The posterior, and leave-one-out log-probabilities [N, C] of the support images."""
        kappa, nu, nu_zero, rho = (self.value(name) for name in ("kappa", "nu", "nu_zero", "rho"))
        z, labels, counts = support.z, support.labels, support.counts
        freedom = len(z) - support.way
        raw_means = support.class_means()
        means = (kappa * raw_means.mean(0) + counts[:, None] * raw_means) / (kappa + counts)[
            :, None
        ]
        residuals = z - raw_means[labels]
        tau = (nu_zero * self.value("tau") + residuals.square().sum()) / (nu_zero + freedom)
        prior = nu * tau / support.width
        weight = nu + freedom
        eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        sigma = (prior * eye + residuals.t() @ residuals) / weight
        lower = torch.linalg.cholesky(sigma)  # zᵀ (L Lᵀ)⁻¹ z = ‖z L⁻ᵀ‖²
        whiten = torch.linalg.solve_triangular(lower, eye, upper=False).t()
        scale = 1 + rho / (kappa + counts)
        temperature = self.value("temperature") * USUAL_WIDTH / support.width
        held_out_scale = (1 + rho / (kappa + counts - 1))[labels][:, None]
        scales = scale.expand(len(z), support.way).scatter(1, labels[:, None], held_out_scale)
        distances = (
            _leave_one_out_distances(
                z @ whiten, means @ whiten, residuals @ whiten, labels, counts, kappa, weight
            )
            / scales
        )
        posterior = GaussianPosterior(
            whiten=whiten,
            residual_precision=weight / prior,
            means=means @ whiten,
            scale=scale,
            lam=self.lam,
            temperature=temperature,
            held_out_distance=distances.gather(1, labels[:, None])[:, 0],
        )
        return posterior, log_probabilities(distances, scales, self.lam, temperature)


def log_probabilities(distances: Tensor, scale: Tensor, lam: Tensor, temperature: Tensor) -> Tensor:
    """Log-probabilities [m, C] of squared distances [m, C] and variance scales [C] or [m, C]."""
    return ((-0.5 * distances - lam * scale.log()) * temperature).log_softmax(1)


def _leave_one_out_distances(
    z: Tensor,
    means: Tensor,
    residuals: Tensor,
    labels: Tensor,
    counts: Tensor,
    kappa: Tensor,
    weight: Tensor,
) -> Tensor:
    """Squared distances [N, C] of each image to the class means of the others, in their Σ.

    Everything is a combination of z_n − m_j and the image's residual r_n (in coordinates where
    Σ = I): z_n − m_j' = p_nj (z_n − m_j) + q_nj r_n. The row of an image that is alone in its class
    has no meaning: its class mean is kept.
    """
    way = len(counts)
    index = labels[:, None]
    others = (counts[labels] - 1).clamp_min(1)
    # m_0 moves by −r_n / ((n_c − 1) C)
    q = (kappa / (kappa + counts))[None] / (others[:, None] * way)
    p = torch.ones_like(q).scatter(1, index, ((kappa + counts[labels]) / (kappa + others))[:, None])
    q = q.scatter(1, index, (kappa / (others * way * (kappa + others)))[:, None])
    along = (z * residuals).sum(1)[:, None] - residuals @ means.t()  # (z_n − m_j) · r_n
    length = residuals.square().sum(1)[:, None]
    distances = p * p * squared_distances(z, means) + 2 * p * q * along + q * q * length
    # Σ' = (weight Σ − u uᵀ) / (weight − 1) with u = r_n √(n_c / (n_c − 1))
    lost = (counts[labels] / others)[:, None] / weight
    inner = p * along + q * length
    correction = lost * inner.square() / (1 - lost * length).clamp_min(1e-4)
    return (distances + correction) * (weight - 1) / weight
