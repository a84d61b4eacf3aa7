"""Novelty detection: the inputs of the score that an image belongs to none of a task's classes.

Distances are relative to those of the task's support images: the distance of held-out images from
their class, and the distance of images from their nearest neighbour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class NoveltyReference:
    """What the distances of images are relative to: numbers of a task's support images."""

    held_out: Tensor  # [n], squared held-out distances of images to their class
    weights: Tensor  # [n], balance the classes
    typical: Tensor  # median of held_out
    neighbours: Tensor  # [N], squared distance of each image to its nearest other
    typical_neighbour: Tensor
    directions: Tensor  # [C, r], of the class means
    of_task: Tensor  # [3]


def novelty_reference(adapted: AdaptedLearner) -> NoveltyReference:
    """The reference for the novelty of images in a task."""
    support = adapted.support
    held_out, weights = held_out_distances(support, gaussian_head(adapted))
    neighbours = nearest_distances(support.z).square().clamp_min(1e-6)
    singles = float((support.counts == 1).double().mean())
    sizes = [math.log(len(support.z)) / 2 - 2, math.log(support.way) / 2 - 1, singles]
    return NoveltyReference(
        held_out=held_out,
        weights=weights,
        typical=held_out.median().clamp_min(1e-6),
        neighbours=neighbours,
        typical_neighbour=neighbours.median(),
        directions=F.normalize(support.class_means(), dim=1),
        of_task=support.z.new_tensor(sizes),
    )


def novelty_features(
    adapted: AdaptedLearner,
    features: Tensor,
    reference: NoveltyReference | None = None,
    answers: Tensor | None = None,
) -> Tensor:
    """Inputs [m, NOVELTY_FEATURES] of the unknown score.

    Six numbers of the image (distances and uncertainty), which grow with its novelty, and three of
    the task (its size). Then three relative distances: that of the nearest class to that of the
    second nearest, that of the nearest class to that of the mean of all classes (relative
    Mahalanobis distance), and that of the nearest image to that of its own neighbour. `reference`
    and `answers`, the learner's log-probabilities, are computed unless they are given.
    """
    support, reference = adapted.support, reference or novelty_reference(adapted)
    points = adapted.frame(features.to(support.z.dtype))
    answers = adapted(features) if answers is None else answers
    discriminant = gaussian_head(adapted)
    logistic = adapted.heads[HEADS.index("logistic")]
    assert isinstance(logistic, Logistic)
    nearest, second = discriminant.squared_distances(points).topk(2, 1, largest=False).values.t()
    farther = reference.held_out >= nearest[:, None]
    share_farther = (reference.weights * farther).sum(1)  # of the held-out images
    neighbour, index = squared_distances(points.z, support.z).min(1)
    neighbour = neighbour + points.residual
    sampled = index.div(sample_step(len(support.z)), rounding_mode="floor")
    of_image = [
        4 * (nearest / reference.typical).log(),
        -(share_farther + 0.02).log(),
        2 * (neighbour / reference.typical_neighbour).clamp_min(1e-6).log(),
        -_nearest_mean_cosine(reference.directions, points),
        -answers.max(1).values,
        -logistic.logits(points).logsumexp(1),
    ]
    relative = [
        4 * nearest / second.clamp_min(1e-6),
        4 * nearest / discriminant.centre_distances(points).clamp_min(1e-6),
        (neighbour / reference.neighbours[sampled]).clamp_min(1e-6).log().clamp_max(MAX_LOG),
    ]
    rows = reference.of_task.expand(features.shape[0], -1)
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


def _nearest_mean_cosine(directions: Tensor, points: ProjectedFeatures) -> Tensor:
    """Cosine [m] with the nearest class mean [C, r], as seen from the task's origin."""
    length = (points.z.square().sum(1) + points.residual).sqrt().clamp_min(1e-6)
    return (points.z @ directions.t()).max(1).values / length
