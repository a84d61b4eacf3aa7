"""Bayesian TAML's idea on vectors: a few gradient steps on the head, balanced by what the task's own images say.

    W_0,c = 2 e^{z_c} β m_c, b_0,c = −e^{z_c} β ‖m_c‖²          start: the nearest class mean; z shifts how sure it is
    W_k   = W_{k−1} − e^γ α ∇ Σ_c ω_c (C / N) Σ_{n∈c} CE_n      K steps; ω = softmax over classes

ω and z come from a class's statistics (size, spread, distance to the nearest other mean), γ from their means and
spreads over the classes. Prediction is at the posterior's mean, trained without sampling (the paper's deterministic
variant).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet

STEPS = 5
HIDDEN = 16
STATISTICS = 4


@dataclass(frozen=True)
class Linear:
    """Weights [..., r, C] and biases [..., 1, C]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [..., m, C]."""
        return (points.z @ self.weight + self.bias).log_softmax(-1)


class TamlHead(nn.Module):
    """Meta-learned: where the head starts, step size, and the nets that infer ω, z and γ."""

    def __init__(self) -> None:
        super().__init__()
        self.log_beta, self.log_alpha = (
            nn.Parameter(torch.tensor(1.0)),
            nn.Parameter(torch.tensor(1.5)),
        )
        self.of_class, self.of_task = _net(STATISTICS, 2), _net(2 * STATISTICS + 1, 1)

    def balance(self, support: SupportSet) -> tuple[Tensor, Tensor, Tensor]:
        """ω̃ [C], z [C] and γ, from statistics of the support images."""
        own = support.means()
        spread = support.z.new_zeros(support.way).index_add(
            0, support.labels, (support.z - own[support.labels]).square().sum(1)
        )
        apart = torch.cdist(own, own).fill_diagonal_(float("inf")).min(1).values
        statistics = torch.stack(
            [support.n.log() / 2 - 1, spread / support.n, apart, own.norm(dim=1)], 1
        )
        way = statistics.new_tensor([math.log(support.way) / 2 - 1])
        pooled = torch.cat([statistics.mean(0), statistics.std(0, correction=0), way])
        own_type = self.log_beta.dtype
        omega, z = self.of_class(statistics.to(own_type)).to(statistics).unbind(1)
        return omega, z, self.of_task(pooled.to(own_type)).to(statistics)[0]

    def forward(self, support: SupportSet) -> tuple[Linear, Tensor]:
        """The adapted head, and log-probabilities [N, C] of the support images by heads adapted without their fold."""
        omega, z, gamma = self.balance(support)
        seen = support.kept()  # [F, N]
        target = nn.functional.one_hot(support.labels, support.way).to(support.z)
        counts = seen @ target  # [F, C]; no fold empties a class
        means = (
            (seen[:, :, None] * target).transpose(1, 2) @ support.z / counts[:, :, None]
        )  # [F, C, r]
        weight = 2 * (z + self.log_beta).exp() * means.transpose(1, 2)
        bias = -(z + self.log_beta).exp() * means.square().sum(2)[:, None]
        share = omega.softmax(0)[support.labels] * support.way / len(support.z)
        rate = (gamma + self.log_alpha).exp()
        for _ in range(STEPS):
            error = (share * seen)[:, :, None] * ((support.z @ weight + bias).softmax(2) - target)
            weight = weight - rate * support.z.t() @ error
            bias = bias - rate * error.sum(1, keepdim=True)
        return Linear(weight[0], bias[0]), support.unseen(Linear(weight, bias)(support.points))


def _net(before: int, after: int) -> nn.Sequential:
    """One hidden layer; it starts by saying zero."""
    last = nn.Linear(HIDDEN, after)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(before, HIDDEN), nn.Tanh(), last)
