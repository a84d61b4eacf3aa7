"""Evidence that the label of a support image is wrong.

Every support image was predicted by heads that were fitted without it. An image that is alone in
its class cannot be left out; it is suspicious if it is as close to another class as that class's
own images are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyshot.classifier.confidence.novelty_features import gaussian_head, held_out_distances
from anyshot.classifier.heads.learner import AdaptedLearner
from anyshot.classifier.heads.support_set import SupportSet, squared_distances

LABEL_FEATURES = 7
MAX_ODDS = 8.0  # larger log odds are clipped
NEIGHBOURS = 5  # nearest images whose labels are compared
CHUNK = 1000  # images compared with all others at once


def label_features(adapted: AdaptedLearner) -> Tensor:
    """Evidence against each support image's label [N, LABEL_FEATURES].

    Of images that were held out: the log odds of the most probable other class, and how much closer
    that class is than the own one. Of images that are alone in their class: how close another class
    is. Both distances are relative to those of held-out images. Of all: the share of the nearest
    images with another label, log size, and the held-out confidence of the task.
    """
    support = adapted.support
    own = support.labels[:, None]
    counts = support.counts[support.labels]
    alone = (counts == 1).to(counts)
    held_out = adapted.held_out.to(counts)
    truth = held_out.gather(1, own)[:, 0]
    other = held_out.scatter(1, own, -torch.inf).amax(1)
    odds = (other - truth).clamp(-MAX_ODDS, MAX_ODDS)
    discriminant = gaussian_head(adapted)
    usual = held_out_distances(support, discriminant)[0].median().clamp_min(1e-6)
    distances = discriminant.squared_distances(support.points).scatter(1, own, torch.inf)
    closeness = -(distances.amin(1) / usual).clamp_min(1e-6).log()
    distance = (discriminant.held_out_distance / usual).clamp_min(1e-6).log()
    shown = (1 - alone).sum().clamp_min(1)
    level = (truth.exp() * (1 - alone)).sum() / shown
    return torch.stack(
        [
            (1 - alone) * odds,
            (1 - alone) * (distance + closeness),
            alone * closeness,
            alone,
            _other_neighbours(support) - 0.5,
            counts.log(),
            level.expand(len(counts)) - 0.5,
        ],
        1,
    )


def _other_neighbours(support: SupportSet) -> Tensor:
    """Share [N] of the NEIGHBOURS nearest images that have another label."""
    near = []
    for start in range(0, len(support.z), CHUNK):
        distances = squared_distances(support.z[start : start + CHUNK], support.z)
        rows = torch.arange(len(distances))
        distances[rows, rows + start] = torch.inf
        count = min(NEIGHBOURS, len(support.z) - 1)
        nearest = distances.topk(count, 1, largest=False).indices
        same = support.labels[nearest] == support.labels[start : start + CHUNK, None]
        near.append(1 - same.to(distances).mean(1))
    return torch.cat(near)
