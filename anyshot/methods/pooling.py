"""Poolings of the task encoder: from sets of feature vectors to one vector for each set."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.builtin_options import TAMLOptions
from anyshot.core.code_loading import check_call
from anyshot.core.registry import STATISTICS
from anyshot.methods.set_statistics import FeatureSets, set_statistics

OUTPUTS = 4  #: numbers for each feature


class StatisticsPooling(nn.Module):
    """Pool features [n, width] of several sets to [sets, 4 · width].

    A linear layer maps the statistics of each feature to 4 numbers, followed by ReLU.
    """

    def __init__(self, width: int, options: TAMLOptions) -> None:
        super().__init__()
        self.statistics = [STATISTICS[name] for name in options.statistics]
        for name, statistic in zip(options.statistics, self.statistics, strict=True):
            check_call(f"The statistic {name!r}", statistic, "sets")
        self.mix = nn.Linear(len(self.statistics), OUTPUTS)

    def forward(self, features: Tensor, members: Tensor, cardinality: Tensor) -> Tensor:
        """Features [n, width], 0/1 members [sets, n], cardinality [sets]."""
        sets = FeatureSets(features, members, cardinality)
        return F.relu(self.mix(set_statistics(sets, self.statistics))).flatten(1)


class AttentionPooling(nn.Module):
    """Pool features [n, width] of several sets to [sets, 4 · width] by attention.

        a_h = softmax over the set of ⟨q_h, x⟩ / √width,    pooled_h = relu(Σ_n a_hn x_n + u_h N)

    Each of 4 learned queries q_h weighs the members of a set. Means do not know how many members
    they have, so the encoded size N of the set is added with a learned factor u_h.
    """

    def __init__(self, width: int, options: TAMLOptions) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(OUTPUTS, width))
        self.size = nn.Parameter(torch.empty(OUTPUTS, 1))

    def forward(self, features: Tensor, members: Tensor, cardinality: Tensor) -> Tensor:
        """Features [n, width], 0/1 members [sets, n], cardinality [sets]."""
        scores = self.query @ features.t() / features.shape[1] ** 0.5  # [4, n]
        others = members[:, None] == 0  # [sets, 1, n]
        weights = scores.expand(len(members), -1, -1).masked_fill(others, -torch.inf).softmax(2)
        return F.relu(weights @ features + self.size * cardinality[:, None, None]).flatten(1)
