"""Novelty detection: the inputs of the score that an image belongs to none of a task's classes.

Distances are relative to those of the task's support images: the distance of held-out images from
their class, and the distance of images from their nearest neighbour.
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

NOVELTY_FEATURES = 9
MAX_IMAGES = 1000  # images that are compared with each other


def novelty_features(adapted: AdaptedLearner, features: Tensor) -> Tensor:
    """Inputs [m, NOVELTY_FEATURES] of the unknown score.

    Six numbers of the image (distances and uncertainty), which grow with its novelty, and three of
    the task (its size).
    """
    support = adapted.support
    points = adapted.frame(features.double())
    discriminant = adapted.heads[HEADS.index("discriminant")]
    logistic = adapted.heads[HEADS.index("logistic")]
    assert isinstance(discriminant, GaussianPosterior)
    assert isinstance(logistic, Logistic)
    distance = discriminant.squared_distances(points).min(1).values
    held_out, weights = _held_out_distances(support, discriminant)
    share_farther = (weights * (held_out >= distance[:, None])).sum(1)  # of the held-out images
    neighbour = squared_distances(points.z, support.z).min(1).values + points.residual
    median_neighbour = nearest_distances(support.z).median().square().clamp_min(1e-6)
    of_image = [
        4 * (distance / held_out.median().clamp_min(1e-6)).log(),
        -(share_farther + 0.02).log(),
        2 * (neighbour / median_neighbour).clamp_min(1e-6).log(),
        -_nearest_mean_cosine(support, points),
        -adapted(features).max(1).values,
        -logistic.logits(points).logsumexp(1),
    ]
    singles = (support.counts == 1).double().mean()
    of_task = [
        math.log(len(support.z)) / 2 - 2,
        math.log(support.way) / 2 - 1,
        float(singles),
    ]
    rows = support.z.new_tensor(of_task).expand(len(features), len(of_task))
    return torch.cat([torch.stack(of_image, 1), rows], 1)


def nearest_distances(z: Tensor) -> Tensor:
    """Distance of each image to the nearest other, for at most MAX_IMAGES rows of z [N, r]."""
    sample = z[:: -(-len(z) // MAX_IMAGES)]
    return torch.cdist(sample, sample).fill_diagonal_(float("inf")).min(1).values


def _held_out_distances(
    support: SupportSet, discriminant: GaussianPosterior
) -> tuple[Tensor, Tensor]:
    """Squared held-out distances of images to their class, and weights that balance the classes.

    If every class has one image only, the distance to the nearest other class is used instead.
    """
    several = (support.counts > 1)[support.labels]
    if several.any():
        held_out = discriminant.held_out_distance[several]
        weights = (1 / support.counts)[support.labels][several]
    else:
        distances = discriminant.squared_distances(support.points)
        held_out = distances.scatter(1, support.labels[:, None], float("inf")).min(1).values
        weights = support.z.new_ones(len(several))
    return held_out, weights / weights.sum()


def _nearest_mean_cosine(support: SupportSet, points: ProjectedFeatures) -> Tensor:
    """Cosine [m] with the nearest class mean, as seen from the task's origin."""
    length = (points.z.square().sum(1) + points.residual).sqrt().clamp_min(1e-6)
    return (points.z @ F.normalize(support.class_means(), dim=1).t()).max(1).values / length
