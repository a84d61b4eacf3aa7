"""Which unlabelled images to label first: those in whose neighbourhood most is undecided.

An image x covers another by k(x, x') = exp(SHARP (cos − 1)), the cosine taken from the task's origin. Each choice takes
the image that newly covers most doubt, Σ_j doubt_j · max(k(x, x_j) − covered_j, 0), where labelled images have covered
their neighbourhood already: neither twenty pictures of one corner, nor outliers that nothing else resembles.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.classifier.heads.learner import AdaptedLearner

SHARP = 2.0  # 4 and 8 were worse on CIFAR-FS, Traffic Signs and VGG-Flower
MOST = 4000  # images looked at together; of more, the most doubtful


def choose(adapted: AdaptedLearner, features: Tensor, count: int) -> list[int]:
    """Indices of `count` images (or all, if there are fewer) of features [m, d], the most useful first."""
    features = features.double()
    two = adapted(features).exp().topk(2, 1).values
    doubt = 1 - (two[:, 0] - two[:, 1])
    looked = doubt.argsort(descending=True)[:MOST]
    doubt = doubt[looked]
    pool = F.normalize(adapted.frame.centred(features[looked]), dim=1)
    near = ((pool @ pool.t() - 1) * SHARP).exp()
    points = adapted.frame(features[looked])
    length = (points.z.square().sum(1) + points.rest).sqrt().clamp_min(1e-6)
    to_labelled = points.z / length[:, None] @ F.normalize(adapted.support.z, dim=1).t()
    covered = ((to_labelled.max(1).values - 1) * SHARP).exp()
    chosen: list[int] = []
    for _ in range(min(count, len(looked))):
        gain = (near - covered[:, None]).clamp_min(0).t() @ doubt
        gain[chosen] = -1.0
        best = int(gain.argmax())
        chosen.append(best)
        covered = torch.maximum(covered, near[:, best])
    return looked[chosen].tolist()
