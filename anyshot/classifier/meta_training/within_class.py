"""What a backbone's features do within any class: the directions of the largest spread, from photographs of many kinds.

Of the within-class covariance S of rooted features (trace 1, each set counting the same) the k largest eigenvalues l
say how much more than others a direction varies: with P = 1 − a + a d l a feature shrinks along it by √(P_rest / P).
It is learned from miniImageNet alone, so that every set that is measured is met for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyshot.classifier.heads.support_set import WithinClassDamping, signed_sqrt_normalize
from anyshot.classifier.meta_training.episodes import Features, FeatureSet

SOURCE = "miniimagenet"
KEPT = 128  # directions
TRUST = 0.3  # a; 0.5 was a little worse on sets left out


def damping_of(sets: Sequence[FeatureSet]) -> WithinClassDamping:
    """The damping that the sets named SOURCE ask for."""
    spreads = [_within(data.classes) for data in sets if data.name == SOURCE]
    total = torch.stack([spread / spread.trace() for spread in spreads]).sum(0)
    values, vectors = torch.linalg.eigh(total / total.trace())
    grown = 1 - TRUST + TRUST * len(values) * values.clamp_min(0)
    kept = min(KEPT, len(values) - 1)
    return WithinClassDamping(vectors[:, -kept:], 1 - (grown[:-kept].mean() / grown[-kept:]).sqrt())


def _within(classes: Sequence[Features]) -> Tensor:
    """The sum of the classes' covariances, [d, d]."""
    rooted = [signed_sqrt_normalize(torch.from_numpy(c)).double() for c in classes]
    rest = torch.cat([(x - x.mean(0)) / (len(x) - 1) ** 0.5 for x in rooted])
    return rest.t() @ rest
