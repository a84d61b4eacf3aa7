"""How sure to be: expected accuracy before there is a test set, and images like none of the classes.

Both are small linear models over what a task's own images say, meta-learned on tasks of many sets.

Accuracy: mean and deviation of its logit, from how the mixture did on the support images that it had not seen. Unknown
images: the odds, from how far an image lies from the nearest class and the nearest image, in units of how far the
support images lie from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.heads.learner import Adapted
from anyshot.heads.support import Points, Support

PRIOR = 2.0  # images that a class's share of hits is blended with
LEVEL, DEVIATIONS = 0.9, 1.645  # of the interval of the accuracy to expect


@dataclass(frozen=True)
class Expected:
    """Accuracy to expect on new images: of each class [C]; of all, each class counting the same, with its interval."""

    classes: Tensor
    overall: float
    low: float
    high: float


class Outlook(nn.Module):
    """Meta-learned: 7 + 7 numbers for a task's accuracy, 5 for a class's, 6 for unknown images, 1 threshold."""

    threshold: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.level, self.doubt = nn.Linear(6, 1), nn.Linear(6, 1)
        self.own = nn.Linear(4, 1)
        self.unknown = nn.Linear(5, 1)
        for part, first in ((self.level, 1.0), (self.doubt, 0.0), (self.own, 1.0), (self.unknown, 1.0)):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)
            part.weight.data[0, 0] = first
        self.register_buffer("threshold", torch.tensor(0.5))  # above it an image counts as unknown

    def expected(self, adapted: Adapted) -> Expected:
        """Accuracy to expect, with an interval of 90 %."""
        x = task_evidence(adapted)
        level, doubt = float(self.level(x)), float(self.doubt(x).exp())
        low, high = level - DEVIATIONS * doubt, level + DEVIATIONS * doubt
        overall, low, high = torch.tensor([level, low, high]).sigmoid().tolist()
        classes = self.own(class_evidence(adapted, level))[:, 0].sigmoid()
        return Expected(classes, overall, low, high)

    def unknown_score(self, adapted: Adapted, features: Tensor) -> Tensor:
        """Probability [m] that an image belongs to none of the classes, were half of all images such."""
        return self.unknown(novelty(adapted, features))[:, 0].sigmoid()


def task_evidence(adapted: Adapted) -> Tensor:
    """What is known of a task's accuracy, [6]: shares of hits and confidence on unseen support images, and sizes."""
    support = adapted.support
    right, sure = _shares(adapted)
    several = support.n > 1
    even = 1 / support.way
    hits = right[several].mean() if several.any() else torch.tensor((1 + even) / 2)
    confidence = sure[several].mean() if several.any() else torch.tensor((1 + even) / 2)
    return torch.stack([
        _logit(hits), _logit(confidence), support.n.sum().log() / 2 - 2, torch.tensor(float(support.way)).log() / 2 - 1,
        (~several).float().mean(), support.n.log().std(correction=0),
    ]).float()  # fmt: skip


def class_evidence(adapted: Adapted, level: float) -> Tensor:
    """What is known of each class's accuracy, [C, 4]."""
    right, sure = _shares(adapted)
    n = adapted.support.n
    return torch.stack([
        torch.full_like(n, level), _logit(right) - _logit(right.mean()), _logit(sure) - _logit(sure.mean()),
        n.log() - n.log().mean(),
    ], 1).float()  # fmt: skip


def _shares(adapted: Adapted) -> tuple[Tensor, Tensor]:
    """Share of hits and mean probability of the truth in a class's unseen images, blended with the task's; [C] each."""
    support, p = adapted.support, adapted.held_out.exp()
    labels, n = support.labels, support.n
    several = n > 1
    found = []
    for values in ((p.argmax(1) == labels).float(), p[torch.arange(len(labels)), labels]):
        total = values.new_zeros(support.way).index_add(0, labels, values)
        mean = (total / n)[several].mean() if several.any() else torch.tensor((1 + 1 / support.way) / 2)
        counted = torch.where(several, n, 0.0)
        found.append((torch.where(several, total, 0.0) + PRIOR * mean) / (counted + PRIOR))
    return found[0], found[1]


def _logit(p: Tensor) -> Tensor:
    return torch.logit(p.clamp(0.01, 0.99))


def novelty(adapted: Adapted, features: Tensor) -> Tensor:
    """What tells an unknown image, [m, 5]: distance to the nearest class mean and image, doubt, and the task's size."""
    support, points = adapted.support, adapted.frame(features.double())
    to_class, to_image = _nearest(support, points)
    class_own, image_own = _own_distances(support)
    p = adapted(features)
    sizes = (support.n.sum().log() / 2 - 2).expand(len(to_class))
    return torch.stack([
        (to_class / class_own).log() * 4, (to_image / image_own).log() * 4, -p.max(1).values, sizes,
        torch.tensor(float(support.way)).log().expand(len(to_class)) / 2 - 1,
    ], 1).float()  # fmt: skip


def _nearest(support: Support, points: Points) -> tuple[Tensor, Tensor]:
    """Distance [m] to the nearest class mean, and to the nearest support image."""
    means = torch.cdist(points.z, support.means()).square().min(1).values + points.rest
    images = torch.cdist(points.z, support.z).square().min(1).values + points.rest
    return means.sqrt(), images.sqrt()


def _own_distances(support: Support) -> tuple[Tensor, Tensor]:
    """The median distance of support images to the mean of the others of their class, and to the nearest image."""
    n = support.n[support.labels]
    to_mean = (support.z - support.means()[support.labels]).norm(dim=1) * n / (n - 1).clamp_min(1)
    to_image = torch.cdist(support.z, support.z).fill_diagonal_(float("inf")).min(1).values
    alone = n == 1
    typical = to_mean[~alone].median() if not alone.all() else to_image.median()
    return typical.clamp_min(1e-3), to_image.median().clamp_min(1e-3)
