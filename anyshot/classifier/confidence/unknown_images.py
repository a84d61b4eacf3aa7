"""What tells an image that belongs to none of a task's classes.

Distances count in units of the task's own: how far its images, each left out, lie from their class, and how far from
the nearest other image.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.classifier.heads.discriminant import GaussianPosterior
from anyshot.classifier.heads.learner import HEADS, AdaptedLearner
from anyshot.classifier.heads.logistic import Logistic
from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet, squares

CLUES = 9
MOST = 1000  # images that are compared with each other


def unknown_features(adapted: AdaptedLearner, features: Tensor) -> Tensor:
    """Clues [m, CLUES] to whether images are unknown: distances, doubt, and the task's size."""
    support, points = adapted.support, adapted.frame(features.double())
    discriminant, logistic = (
        adapted.heads[HEADS.index(name)] for name in ("discriminant", "logistic")
    )
    assert isinstance(discriminant, GaussianPosterior)
    assert isinstance(logistic, Logistic)
    several = support.n > 1
    away = discriminant.squares(points).min(1).values
    own, weights = _left_out(support, discriminant)
    image = squares(points.z, support.z).min(1).values + points.rest
    return torch.cat([
        torch.stack([
            4 * (away / own.median().clamp_min(1e-6)).log(),
            -((weights * (own >= away[:, None])).sum(1) + 0.02).log(),  # share of the task's own that lie farther out
            2 * (image / nearest(support.z).median().square().clamp_min(1e-6)).clamp_min(1e-6).log(),
            -_cosine(support, points),
            -adapted(features).max(1).values,
            -logistic.logits(points).logsumexp(1),
        ], 1),
        support.z.new_tensor([
            math.log(len(support.z)) / 2 - 2, math.log(support.way) / 2 - 1, float((~several).double().mean())
        ]).expand(len(features), 3),
    ], 1)  # fmt: skip


def nearest(z: Tensor) -> Tensor:
    """Distances of images [N, r] (of many, some) to the nearest other."""
    some = z[:: -(-len(z) // MOST)]
    return torch.cdist(some, some).fill_diagonal_(float("inf")).min(1).values


def _left_out(support: SupportSet, discriminant: GaussianPosterior) -> tuple[Tensor, Tensor]:
    """Squared distances of images, left out, to their classes, and weights by which every class counts the same.

    If all are alone in their classes, the distances to the nearest other class stand in.
    """
    several = (support.n > 1)[support.labels]
    if several.any():
        own, weights = discriminant.own[several], (1 / support.n)[support.labels][several]
    else:
        between = discriminant.squares(support.points).scatter(
            1, support.labels[:, None], float("inf")
        )
        own, weights = between.min(1).values, support.z.new_ones(len(several))
    return own, weights / weights.sum()


def _cosine(support: SupportSet, points: ProjectedFeatures) -> Tensor:
    """With the nearest class mean, as seen from the task's origin."""
    length = (points.z.square().sum(1) + points.rest).sqrt().clamp_min(1e-6)
    return (points.z @ F.normalize(support.means(), dim=1).t()).max(1).values / length
