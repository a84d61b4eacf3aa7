"""Active learning: which unlabelled images to label first.

An image x covers another by k(x, x') = exp(SHARPNESS (cos − 1)), with the cosine taken from the
task's origin. The uncertainty of an image is 1 minus the margin between its two
largest probabilities. Each choice is the image x that covers the most uncertainty not covered yet,
Σ_j uncertainty_j · max(k(x, x_j) − covered_j, 0). At the start, covered_j is the largest k of x_j
and a labelled image. This avoids twenty similar images as well as outliers that resemble no other
image.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.classifier.heads.learner import AdaptedLearner

SHARPNESS = 2.0  # 4 and 8 were worse on CIFAR-FS, Traffic Signs and VGG-Flower
MAX_IMAGES = 4000  # images considered together; of more, the most uncertain


def choose_images(adapted: AdaptedLearner, features: Tensor, count: int) -> list[int]:
    """Indices of `count` images (or all, if fewer) of features [m, d], the most useful first."""
    features = features.double()
    top_two = adapted(features).exp().topk(2, 1).values
    uncertainty = 1 - (top_two[:, 0] - top_two[:, 1])
    considered = uncertainty.argsort(descending=True)[:MAX_IMAGES]
    uncertainty = uncertainty[considered]
    pool = F.normalize(adapted.frame.centre(features[considered]), dim=1)
    covers = ((pool @ pool.t() - 1) * SHARPNESS).exp()
    points = adapted.frame(features[considered])
    length = (points.z.square().sum(1) + points.residual).sqrt().clamp_min(1e-6)
    to_labelled = points.z / length[:, None] @ F.normalize(adapted.support.z, dim=1).t()
    covered = ((to_labelled.max(1).values - 1) * SHARPNESS).exp()
    chosen: list[int] = []
    for _ in range(min(count, len(considered))):
        gain = (covers - covered[:, None]).clamp_min(0).t() @ uncertainty
        gain[chosen] = -1.0  # never twice
        best = int(gain.argmax())
        chosen.append(best)
        covered = torch.maximum(covered, covers[:, best])
    return considered[chosen].tolist()
