"""Bayesian TAML on features: gradient steps on the head, balanced by the task's own statistics.

    W_0,c = 2 e^{z_c} β m_c, b_0,c = −e^{z_c} β ‖m_c‖²       start: nearest class mean
    W_k   = W_{k−1} − e^γ α ∇ Σ_c ω_c (C / N) Σ_{n∈c} CE_n   K steps; ω = softmax over classes

ω and z come from a class's statistics (size, spread, distance to the nearest other mean), γ from
their means and deviations over the classes. Prediction uses the posterior mean, and training does
not sample (the paper's deterministic variant).
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
class LinearHead:
    """Weights [..., r, C] and biases [..., 1, C]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, points: ProjectedFeatures) -> Tensor:
        """Log-probabilities [..., m, C]."""
        return (points.z @ self.weight + self.bias).log_softmax(-1)


class TamlHead(nn.Module):
    """Meta-learned: initial sharpness β, step size α, and the networks that infer ω, z and γ."""

    def __init__(self) -> None:
        super().__init__()
        self.log_beta = nn.Parameter(torch.tensor(1.0))
        self.log_alpha = nn.Parameter(torch.tensor(1.5))
        self.of_class = _two_layers(STATISTICS, 2)
        self.of_task = _two_layers(2 * STATISTICS + 1, 1)

    def balance(self, support: SupportSet) -> tuple[Tensor, Tensor, Tensor]:
        """ω̃ [C], z [C] and γ, from statistics of the support images."""
        spread, nearest = support.class_geometry()
        norms = support.class_means().norm(dim=1)
        statistics = torch.stack(
            [support.counts.log() / 2 - 1, spread / support.counts, nearest, norms], 1
        )
        way = statistics.new_tensor([math.log(support.way) / 2 - 1])
        pooled = torch.cat([statistics.mean(0), statistics.std(0, correction=0), way])
        dtype = self.log_beta.dtype
        omega, z = self.of_class(statistics.to(dtype)).to(statistics).unbind(1)
        return omega, z, self.of_task(pooled.to(dtype)).to(statistics)[0]

    def forward(self, support: SupportSet) -> tuple[LinearHead, Tensor]:
        """The adapted head, and held-out log-probabilities [N, C] of the support images."""
        omega, z, gamma = self.balance(support)
        masks = support.fold_masks()  # [F, N]
        target = nn.functional.one_hot(support.labels, support.way).to(support.z)
        counts = masks @ target  # [F, C]; no fold empties a class
        members = (masks[:, :, None] * target).transpose(1, 2)
        means = members @ support.z / counts[:, :, None]  # [F, C, r]
        weight = 2 * (z + self.log_beta).exp() * means.transpose(1, 2)
        bias = -(z + self.log_beta).exp() * means.square().sum(2)[:, None]
        share = omega.softmax(0)[support.labels] * support.way / len(support.z)
        rate = (gamma + self.log_alpha).exp()
        for _ in range(STEPS):
            error = (share * masks)[:, :, None] * ((support.z @ weight + bias).softmax(2) - target)
            weight = weight - rate * support.z.t() @ error
            bias = bias - rate * error.sum(1, keepdim=True)
        by_fold = LinearHead(weight, bias)
        return LinearHead(weight[0], bias[0]), support.select_held_out(by_fold(support.points))


def _two_layers(inputs: int, outputs: int) -> nn.Sequential:
    """A network with one hidden layer whose initial output is zero."""
    last = nn.Linear(HIDDEN, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), last)
