"""A Bayesian linear discriminant in closed form; what it believes before it sees a task is meta-learned.

    m_0   the mean of the class means z̄_c
    m_c = (κ m_0 + n_c z̄_c) / (κ + n_c)                   small classes lean on the others
    τ   = (ν_0 τ_0 + Σ_n ‖r_n‖²) / (ν_0 + N − C)         how far the task's images spread; r: residuals from class means
    Σ   = (ν τ I / d + Σ_n r_n r_nᵀ) / (ν + N − C)
    log p(z | c) = −½ (z − m_c)ᵀ Σ⁻¹ (z − m_c) / v_c − λ log v_c,  v_c = 1 + ρ / (κ + n_c);  times a temperature

Each image's score with itself left out (τ kept) is exact and needs no second fit: its class mean moves along its own
residual, and Σ loses one rank (Sherman and Morrison).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet, squares

START = {
    "log_kappa": 1.8, "log_nu": 4.4, "log_nu_zero": 2.0, "log_tau": 0.4, "log_rho": -0.3, "lam": -0.2,
    "log_temperature": -3.2,
}  # fmt: skip


@dataclass(frozen=True)
class GaussianPosterior:
    """A task's posterior, in coordinates where Σ = I."""

    whiten: Tensor  # [r, r]: z ↦ z @ whiten
    outside: Tensor  # the inverse variance outside the span of the support images
    means: Tensor  # [C, r]
    spread: Tensor  # [C], v_c
    lam: Tensor
    temperature: Tensor
    own: Tensor  # [N], squared distance of each support image, left out, to its class

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [m, C]."""
        return log_probabilities(self.squares(points), self.spread, self.lam, self.temperature)

    def squares(self, points: ProjectedFeatures) -> Tensor:
        """Squared distances [m, C] to the classes, in units of their variance."""
        inside = squares(points.z @ self.whiten, self.means)
        return (inside + (self.outside * points.rest)[:, None]) / self.spread


class Discriminant(nn.Module):
    """The meta-learned beliefs: seven numbers."""

    lam: Tensor

    def __init__(self, **start: float) -> None:
        super().__init__()
        for name, value in {**START, **start}.items():
            setattr(self, name, nn.Parameter(torch.tensor(value)))

    def value(self, name: str) -> Tensor:
        """A positive number, kept as its logarithm."""
        return getattr(self, f"log_{name}").exp()

    def forward(self, support: SupportSet) -> tuple[GaussianPosterior, Tensor]:
        """The posterior, and log-probabilities [N, C] of the support images, each left out."""
        kappa, nu, nu_zero, rho = (self.value(name) for name in ("kappa", "nu", "nu_zero", "rho"))
        z, labels, n, free = support.z, support.labels, support.n, len(support.z) - support.way
        own = support.means()
        means = (kappa * own.mean(0) + n[:, None] * own) / (kappa + n)[:, None]
        rest = z - own[labels]
        tau = (nu_zero * self.value("tau") + rest.square().sum()) / (nu_zero + free)
        prior, weight = nu * tau / support.width, nu + free
        eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        sigma = (prior * eye + rest.t() @ rest) / weight
        lower = torch.linalg.cholesky(sigma)  # zᵀ (L Lᵀ)⁻¹ z = ‖z L⁻ᵀ‖²
        whiten = torch.linalg.solve_triangular(lower, eye, upper=False).t()
        spread, temperature = 1 + rho / (kappa + n), self.value("temperature")
        alone = (1 + rho / (kappa + n - 1))[labels][:, None]
        spreads = spread.expand(len(z), support.way).scatter(1, labels[:, None], alone)
        away = (
            _left_out(z @ whiten, means @ whiten, rest @ whiten, labels, n, kappa, weight) / spreads
        )
        own = away.gather(1, labels[:, None])[:, 0]
        fitted = GaussianPosterior(
            whiten, weight / prior, means @ whiten, spread, self.lam, temperature, own
        )
        return fitted, log_probabilities(away, spreads, self.lam, temperature)


def log_probabilities(away: Tensor, spread: Tensor, lam: Tensor, temperature: Tensor) -> Tensor:
    """Of squared distances [m, C] in units of the variances, [C] or [m, C]."""
    return ((-0.5 * away - lam * spread.log()) * temperature).log_softmax(1)


def _left_out(
    z: Tensor, means: Tensor, rest: Tensor, labels: Tensor, n: Tensor, kappa: Tensor, weight: Tensor
) -> Tensor:
    """Squared distances [N, C] of each image to the class means that the other images give, in their Σ.

    Everything is a combination of z_n − m_j and the image's residual r_n (in coordinates where Σ = I):
    z_n − m_j' = p_nj (z_n − m_j) + q_nj r_n. An image that is alone in its class keeps the class mean:
    its row says nothing.
    """
    way, index = len(n), labels[:, None]
    others = (n[labels] - 1).clamp_min(1)
    q = (kappa / (kappa + n))[None] / (others[:, None] * way)  # m_0 moves by −r_n / ((n_c − 1) C)
    p = torch.ones_like(q).scatter(1, index, ((kappa + n[labels]) / (kappa + others))[:, None])
    q = q.scatter(1, index, (kappa / (others * way * (kappa + others)))[:, None])
    along = (z * rest).sum(1)[:, None] - rest @ means.t()  # (z_n − m_j) · r_n
    length = rest.square().sum(1)[:, None]
    away = p * p * squares(z, means) + 2 * p * q * along + q * q * length
    # Σ' = (weight Σ − u uᵀ) / (weight − 1) with u = r_n √(n_c / (n_c − 1))
    lost = (n[labels] / others)[:, None] / weight
    inner = p * along + q * length
    return (
        (away + lost * inner.square() / (1 - lost * length).clamp_min(1e-4)) * (weight - 1) / weight
    )
