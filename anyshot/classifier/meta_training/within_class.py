"""Within-class covariance of a backbone's features, from photographs of many kinds.

S is the within-class covariance of normalised features (trace 1, each set counting the same). Its k
largest eigenvalues l say how much more than others a direction varies: with P = 1 − a + a d l, a
feature shrinks along it by √(P_rest / P). S is estimated on miniImageNet alone, so that every data
set of the measurements is new to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyshot.classifier.heads.support_set import WithinClassDamping, signed_sqrt_normalize
from anyshot.classifier.meta_training.episodes import FeatureSet

SOURCE = "miniimagenet"
DIRECTIONS = 128
TRUST = 0.3  # a; 0.5 was slightly worse on held-out data sets


def estimate_damping(sets: Sequence[FeatureSet]) -> WithinClassDamping:
    """Estimate the damping from the feature sets named SOURCE."""
    covariances = [_within_class_covariance(data) for data in sets if data.name == SOURCE]
    total = torch.stack([c / c.trace() for c in covariances]).sum(0)
    values, vectors = torch.linalg.eigh(total / total.trace())
    variation = 1 - TRUST + TRUST * len(values) * values.clamp_min(0)
    count = min(DIRECTIONS, len(values) - 1)
    shrinkage = (variation[:-count].mean() / variation[-count:]).sqrt()
    return WithinClassDamping(vectors[:, -count:], 1 - shrinkage)


def _within_class_covariance(data: FeatureSet) -> Tensor:
    """The sum of the classes' covariances of the first block of features, [d, d]."""
    width = data.widths[0] if data.widths else data.classes[0].shape[1]
    normalised = [
        signed_sqrt_normalize(torch.from_numpy(c[:, :width])).double() for c in data.classes
    ]
    residuals = torch.cat([(x - x.mean(0)) / (len(x) - 1) ** 0.5 for x in normalised])
    return residuals.t() @ residuals
