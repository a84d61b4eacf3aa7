"""Novelty detection: the inputs of the score that an image belongs to none of a task's classes.

Distances are in the task's own units: how far its held-out images are from their class, and how far
from the nearest other image.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.classifier.heads.discriminant import GaussianPosterior
from anyshot.classifier.heads.learner import HEADS, AdaptedLearner
from anyshot.classifier.heads.logistic import Logistic
from anyshot.classifier.heads.support_set import ProjectedFeatures, SupportSet, squared_distances

UNKNOWN_FEATURES = 9
MAX_IMAGES = 1000  # images that are compared with each other


def unknown_features(adapted: AdaptedLearner, features: Tensor) -> Tensor:
    """Inputs [m, UNKNOWN_FEATURES] of the unknown score: distances, doubt, and the task's size.

    All six numbers of the image grow with its novelty.
    """
    support = adapted.support
    points = adapted.frame(features.double())
    discriminant = adapted.heads[HEADS.index("discriminant")]
    logistic = adapted.heads[HEADS.index("logistic")]
    assert isinstance(discriminant, GaussianPosterior)
    assert isinstance(logistic, Logistic)
    away = discriminant.squared_distances(points).min(1).values
    own, weights = _held_out_distances(support, discriminant)
    farther = (weights * (own >= away[:, None])).sum(1)  # share of the task's own images
    neighbour = squared_distances(points.z, support.z).min(1).values + points.residual
    usual_neighbour = nearest_distances(support.z).median().square().clamp_min(1e-6)
    of_image = [
        4 * (away / own.median().clamp_min(1e-6)).log(),
        -(farther + 0.02).log(),
        2 * (neighbour / usual_neighbour).clamp_min(1e-6).log(),
        -_nearest_mean_cosine(support, points),
        -adapted(features).max(1).values,
        -logistic.logits(points).logsumexp(1),
    ]
    alone = (support.counts == 1).double().mean()
    of_task = [
        math.log(len(support.z)) / 2 - 2,
        math.log(support.way) / 2 - 1,
        float(alone),
    ]
    rows = support.z.new_tensor(of_task).expand(len(features), len(of_task))
    return torch.cat([torch.stack(of_image, 1), rows], 1)


def nearest_distances(z: Tensor) -> Tensor:
    """Distance of each image to the nearest other, for at most MAX_IMAGES rows of z [N, r]."""
    some = z[:: -(-len(z) // MAX_IMAGES)]
    return torch.cdist(some, some).fill_diagonal_(float("inf")).min(1).values


def _held_out_distances(
    support: SupportSet, discriminant: GaussianPosterior
) -> tuple[Tensor, Tensor]:
    """Squared held-out distances of images to their class, and weights that balance the classes.

    If every class has one image only, the distance to the nearest other class is used instead.
    """
    several = (support.counts > 1)[support.labels]
    if several.any():
        own = discriminant.held_out_distance[several]
        weights = (1 / support.counts)[support.labels][several]
    else:
        distances = discriminant.squared_distances(support.points)
        own = distances.scatter(1, support.labels[:, None], float("inf")).min(1).values
        weights = support.z.new_ones(len(several))
    return own, weights / weights.sum()


def _nearest_mean_cosine(support: SupportSet, points: ProjectedFeatures) -> Tensor:
    """Cosine [m] with the nearest class mean, as seen from the task's origin."""
    length = (points.z.square().sum(1) + points.residual).sqrt().clamp_min(1e-6)
    return (points.z @ F.normalize(support.class_means(), dim=1).t()).max(1).values / length
