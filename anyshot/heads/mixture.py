"""The balanced mixture: how far each head is trusted for each class, from the task's own evidence.

    p(c | x) ∝ ω_c Σ_k a_kc p_k(c | x)^{t_kc}

The trust a (a softmax over heads), the sharpness t and the weight ω of each class come from one small net that looks at
class sizes, at the number of classes, and at how well each head predicted the support images that it had not seen. It
starts as the plain mean of the heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.heads.support import Support

HIDDEN = 24
SHRINK = 3.0  # images that a class's evidence is blended with, at the task's mean
WORST = -5.0  # one surprise says no more than this


@dataclass(frozen=True)
class Weights:
    """For K heads and C classes: trust [K, C], sharpness [K, C], omega [C]."""

    trust: Tensor
    sharpness: Tensor
    omega: Tensor

    def __call__(self, heads: Tensor) -> Tensor:
        """Log-probabilities [m, C] of the heads' [K, m, C]."""
        terms = self.trust.log()[:, None] + heads.clamp_min(-50) * self.sharpness[:, None]
        return (terms.logsumexp(0) + self.omega.log()).log_softmax(1)


class Mixture(nn.Module):
    """The net: 5 + 3 K numbers of a class → its trust, sharpness and weight."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = nn.Linear(5 + 3 * heads, HIDDEN)
        self.out = nn.Linear(HIDDEN, 2 * heads + 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, support: Support, held_out: Tensor) -> Weights:
        """Weights for a task whose heads gave the support images, unseen, log-probabilities [K, N, C]."""
        out = self.out(self.hidden(evidence(support, held_out)).tanh())
        trust, sharpness, omega = out.split([self.heads, self.heads, 1], 1)
        return Weights(trust.softmax(1).t(), sharpness.t().exp(), omega[:, 0].softmax(0) * support.way)


def evidence(support: Support, held_out: Tensor) -> Tensor:
    """What the net sees, [C, 5 + 3 K]: sizes, and how each head does in the task, in the class, and in false alarms."""
    n, labels, way = support.n, support.labels, support.way
    several = n > 1
    size = n.log()
    sizes = torch.stack([
        size / 2 - 1,
        (size - size.mean()) / 1.5,
        (n.sum().log() / 2 - 2).expand(way),
        torch.tensor(float(way)).log().expand(way) / 2 - 1,
        (~several).float().mean().expand(way),
    ], 1)  # fmt: skip
    nats = torch.tensor(float(way)).log()
    own = held_out[:, torch.arange(len(labels)), labels].clamp_min(WORST) / nats  # [K, N]
    summed = own.new_zeros(len(own), way).index_add(1, labels, own)
    counted = torch.where(several, n, 0.0)
    level = own.new_full((len(own), 1), -0.4)  # of a task whose images are all alone in their classes
    if several.any():
        level = (summed / n)[:, several].mean(1, keepdim=True)
    within = (torch.where(several, summed, 0.0) + SHRINK * level) / (counted + SHRINK)
    # probability that others' images give the class, each class of others counting the same, against an even share
    given = held_out.exp().new_zeros(len(own), way, way).index_add(1, labels, held_out.exp()) / n[:, None]
    wolf = (given.sum(1) - given.diagonal(dim1=1, dim2=2)) * way / max(way - 1, 1)
    return torch.cat([sizes, level.expand(-1, way).t() + 0.4, (within - level).t() * 2, wolf.t() - 0.5], 1)
