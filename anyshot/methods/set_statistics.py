"""Statistics of sets of feature vectors: functions of :class:`FeatureSets` for the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anyshot.core.errors import CodeError


@dataclass(frozen=True)
class FeatureSets:
    """Feature vectors, each in one of several sets.

    Moments are biased. For a set of one image, or a constant feature, the second moment and those
    above are 0, with gradient 0.

    Parameters
    ----------
    features : Tensor [n, width]
    members : Tensor [sets, n]
        1 if a vector belongs to a set, otherwise 0.
    cardinality : Tensor [sets]
        The encoded sizes of the sets.
    """

    features: Tensor
    members: Tensor
    cardinality: Tensor

    @cached_property
    def share(self) -> Tensor:
        """Matrix [sets, n]: ``share @ x`` is the mean of x [n, …] over each set."""
        return self.members / self.members.sum(1, keepdim=True)

    @cached_property
    def mean(self) -> Tensor:
        """Mean of each set, [sets, width]."""
        return self.share @ self.features

    @cached_property
    def centred_features(self) -> Tensor:
        """Each vector minus the mean of its set, [n, width]."""
        return self.features - self.members.t() @ self.mean

    def moment(self, order: int) -> Tensor:
        """Mean of the centred features to a power, [sets, width]."""
        return self.share @ self.centred_features**order

    def standardised_moment(self, order: int) -> Tensor:
        """The moment divided by a power of the standard deviation, [sets, width]."""
        var = self.moment(2)
        varies = var > 1e-12
        deviation_power = torch.where(varies, var, 1.0) ** (order / 2)
        return torch.where(varies, self.moment(order) / deviation_power, 0.0)


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
    return sets.standardised_moment(3)


def kurtosis(sets: FeatureSets) -> Tensor:
    """The fourth standardised moment."""
    return sets.standardised_moment(4)


def set_statistics(sets: FeatureSets, statistics: Sequence[Statistic]) -> Tensor:
    """Compute several statistics, [sets, width, len(statistics)]."""
    results = [statistic(sets) for statistic in statistics]
    for statistic, values in zip(statistics, results, strict=True):
        if not isinstance(values, Tensor) or values.shape != sets.mean.shape:
            given = f"shape {list(values.shape)}" if isinstance(values, Tensor) else repr(values)
            raise CodeError(
                f"The statistic {statistic.__name__!r} gives {given}; expected a tensor of shape "
                f"{list(sets.mean.shape)}, one number for each set and feature."
            )
    return torch.stack(results, -1)
