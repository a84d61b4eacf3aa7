"""Statistics of a set of feature vectors, which the encoder pools: each a function of :class:`Sets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anyshot.core.errors import AnyshotError


@dataclass(frozen=True)
class FeatureSets:
    """Several sets of feature vectors, a vector in one set each, and what their statistics share.

    Moments are biased. Those of a one-image or constant feature are 0 from the second on, with gradient 0.
    """

    features: Tensor  #: [n, width]
    members: Tensor  #: 0/1 [sets, n]
    cardinality: Tensor  #: the number that tells a set's size, [sets]

    @cached_property
    def share(self) -> Tensor:
        """``share @ x`` is the mean of x [n, …] over each set."""
        return self.members / self.members.sum(1, keepdim=True)

    @cached_property
    def mean(self) -> Tensor:
        """[sets, width]"""
        return self.share @ self.features

    @cached_property
    def centred(self) -> Tensor:
        """Each vector minus its own set's mean, [n, width]."""
        return self.features - self.members.t() @ self.mean

    def moment(self, order: int) -> Tensor:
        """Mean of the centred features to a power, [sets, width]."""
        return self.share @ self.centred**order

    def standardised(self, order: int) -> Tensor:
        """The moment in units of the deviation."""
        var = self.moment(2)
        some = var > 1e-12
        return torch.where(
            some, self.moment(order) / torch.where(some, var, 1.0) ** (order / 2), 0.0
        )


Statistic = Callable[[FeatureSets], Tensor]  #: [sets, width]


def mean(sets: FeatureSets) -> Tensor:
    """The mean."""
    return sets.mean


def N(sets: FeatureSets) -> Tensor:
    """The set's size, the same for each feature."""
    return sets.cardinality[:, None].expand_as(sets.mean)


def var(sets: FeatureSets) -> Tensor:
    """The variance."""
    return sets.moment(2)


def skewness(sets: FeatureSets) -> Tensor:
    """The third standardised moment."""
    return sets.standardised(3)


def kurtosis(sets: FeatureSets) -> Tensor:
    """The fourth standardised moment."""
    return sets.standardised(4)


def set_statistics(sets: FeatureSets, statistics: Sequence[Statistic]) -> Tensor:
    """Several statistics, [sets, width, len(statistics)]."""
    found = [statistic(sets) for statistic in statistics]
    for statistic, values in zip(statistics, found, strict=True):
        if values.shape != sets.mean.shape:
            raise AnyshotError(
                f"The statistic {statistic.__name__!r} is {list(values.shape)}, but should be "
                f"{list(sets.mean.shape)}: a number for each set and feature."
            )
    return torch.stack(found, -1)
