"""The balanced mixture: how far each head is trusted for each class, from the task's own evidence.

    p(c | x) ∝ ω_c Σ_k a_kc p_k(c | x)^{t_kc}

The trust a (a softmax over heads), the sharpness t and the weight ω of each class come from one small net that looks at
class sizes, at the number of classes, at how far classes spread and lie apart, and at how well each head predicted the
support images that it had not seen. It starts as the plain mean of the heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import SupportSet

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
    """The net: 7 + 3 K numbers of a class → its trust, sharpness and weight."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = nn.Linear(7 + 3 * heads, HIDDEN)
        self.out = nn.Linear(HIDDEN, 2 * heads + 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, seen: Tensor) -> Weights:
        """Weights for a task, from the evidence [C, 7 + 3 K]."""
        out = self.out(self.hidden(seen.to(self.out.weight)).tanh()).to(seen)
        trust, sharpness, omega = out.split([self.heads, self.heads, 1], 1)
        return Weights(
            trust.softmax(1).t(), sharpness.t().exp(), omega[:, 0].softmax(0) * len(seen)
        )


def evidence(support: SupportSet, held_out: Tensor) -> Tensor:
    """What the net sees, [C, 7 + 3 K]: sizes, spreads, how each head does in the task, the class, in false alarms."""
    n, labels, way = support.n, support.labels, support.way
    several = n > 1
    size = n.log()
    sizes = torch.stack([
        size / 2 - 1,
        (size - size.mean()) / 1.5,
        (n.sum().log() / 2 - 2).expand(way),
        n.new_full((way,), math.log(way) / 2 - 1),
        (~several).to(n).mean().expand(way),
    ], 1)  # fmt: skip
    own = held_out[:, torch.arange(len(labels)), labels].clamp_min(WORST) / math.log(way)  # [K, N]
    summed = own.new_zeros(len(own), way).index_add(1, labels, own)
    counted = torch.where(several, n, 0.0)
    level = own.new_full(
        (len(own), 1), -0.4
    )  # of a task whose images are all alone in their classes
    if several.any():
        level = (summed / n)[:, several].mean(1, keepdim=True)
    within = (torch.where(several, summed, 0.0) + SHRINK * level) / (counted + SHRINK)
    # probability that others' images give the class, each class of others counting the same, against an even share
    given = (
        held_out.exp().new_zeros(len(own), way, way).index_add(1, labels, held_out.exp())
        / n[:, None]
    )
    wolf = (given.sum(1) - given.diagonal(dim1=1, dim2=2)) * way / max(way - 1, 1)
    scores = [level.expand(-1, way).t() + 0.4, (within - level).t() * 2, wolf.t() - 0.5]
    return torch.cat([sizes, _spreads(support), *scores], 1)


def _spreads(support: SupportSet) -> Tensor:
    """How far each class spreads, blended with one image of the task's, and how far the nearest other lies, [C, 2]."""
    means, n = support.means(), support.n
    spread = torch.zeros_like(n).index_add(
        0, support.labels, (support.z - means[support.labels]).square().sum(1)
    )
    apart = torch.cdist(means, means).fill_diagonal_(float("inf")).min(1).values
    return torch.stack([(spread + spread.sum() / n.sum()) / (n + 1) - 0.7, apart - 0.8], 1)
