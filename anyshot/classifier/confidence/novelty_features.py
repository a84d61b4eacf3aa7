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

NOVELTY_FEATURES = 12
MAX_LOG = 4.0  # larger logarithms of relative neighbour distances are clipped
MAX_IMAGES = 1000  # images that are compared with each other


def novelty_features(adapted: AdaptedLearner, features: Tensor) -> Tensor:
    """Inputs [m, NOVELTY_FEATURES] of the unknown score.

    Six numbers of the image (distances and uncertainty), which grow with its novelty, and three of
    the task (its size). Then three relative distances: that of the nearest class to that of the
    second nearest, that of the nearest class to that of the mean of all classes (relative
    Mahalanobis distance), and that of the nearest image to that of its own neighbour.
    """
    support = adapted.support
    points = adapted.frame(features.double())
    discriminant = gaussian_head(adapted)
    logistic = adapted.heads[HEADS.index("logistic")]
    assert isinstance(logistic, Logistic)
    nearest, second = discriminant.squared_distances(points).topk(2, 1, largest=False).values.t()
    held_out, weights = held_out_distances(support, discriminant)
    share_farther = (weights * (held_out >= nearest[:, None])).sum(1)  # of the held-out images
    neighbour, index = squared_distances(points.z, support.z).min(1)
    neighbour = neighbour + points.residual
    own_neighbour = nearest_distances(support.z).square().clamp_min(1e-6)
    median_neighbour = own_neighbour.median()
    sampled = index.div(sample_step(len(support.z)), rounding_mode="floor")
    of_image = [
        4 * (nearest / held_out.median().clamp_min(1e-6)).log(),
        -(share_farther + 0.02).log(),
        2 * (neighbour / median_neighbour).clamp_min(1e-6).log(),
        -_nearest_mean_cosine(support, points),
        -adapted(features).max(1).values,
        -logistic.logits(points).logsumexp(1),
    ]
    relative = [
        4 * nearest / second.clamp_min(1e-6),
        4 * nearest / discriminant.centre_distances(points).clamp_min(1e-6),
        (neighbour / own_neighbour[sampled]).clamp_min(1e-6).log().clamp_max(MAX_LOG),
    ]
    singles = (support.counts == 1).double().mean()
    of_task = [
        math.log(len(support.z)) / 2 - 2,
        math.log(support.way) / 2 - 1,
        float(singles),
    ]
    rows = support.z.new_tensor(of_task).expand(len(features), len(of_task))
    return torch.cat([torch.stack(of_image, 1), rows, torch.stack(relative, 1)], 1)


def gaussian_head(adapted: AdaptedLearner) -> GaussianPosterior:
    """The discriminant of a fitted task."""
    head = adapted.heads[HEADS.index("discriminant")]
    assert isinstance(head, GaussianPosterior)
    return head


def nearest_distances(z: Tensor) -> Tensor:
    """Distance of each image to the nearest other, for at most MAX_IMAGES rows of z [N, r]."""
    sample = z[:: sample_step(len(z))]
    return torch.cdist(sample, sample).fill_diagonal_(float("inf")).min(1).values


def sample_step(images: int) -> int:
    """Every how many-th image is compared with others, so that there are at most MAX_IMAGES."""
    return -(-images // MAX_IMAGES)


def held_out_distances(
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
