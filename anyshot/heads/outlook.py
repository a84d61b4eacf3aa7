"""How sure to be: expected accuracy before there is a test set, images like none of the classes, tasks like none met.

All three are small linear models over what a task's own images say, meta-learned on tasks of many sets.

Accuracy: mean and deviation of its logit, from how the mixture did on the support images that it had not seen.
Unknown images: the odds, from `anyshot.heads.novelty`. Tasks unlike anything learned from: the Mahalanobis distance of
a task's shape from those that were learned from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.heads.learner import Adapted
from anyshot.heads.novelty import CLUES, nearest, novelty

PRIOR = 2.0  # images that a class's share of hits is blended with
LEVEL, DEVIATIONS = 0.9, 1.645  # of the interval of the accuracy to expect
EVIDENCE, OWN, SHAPE = 6, 4, 6  # numbers of task_evidence, class_evidence and shape


@dataclass(frozen=True)
class Expected:
    """Accuracy to expect on new images: of each class [C]; of all, each class counting the same, with its interval."""

    classes: Tensor
    overall: float
    low: float
    high: float


class Outlook(nn.Module):
    """Meta-learned: linear models for a task's accuracy and its doubt, a class's, unknown images, and usual shapes."""

    threshold: Tensor
    usual: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.level, self.doubt, self.own = nn.Linear(EVIDENCE, 1), nn.Linear(EVIDENCE, 1), nn.Linear(OWN, 1)
        self.unknown = nn.Linear(CLUES, 1)
        for part in (self.level, self.doubt, self.own, self.unknown):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)
        self.register_buffer("threshold", torch.tensor(0.5))  # above it an image counts as unknown
        self.register_buffer("usual", torch.zeros(SHAPE))  # mean shape of the tasks learned from
        self.register_buffer("spread", torch.eye(SHAPE))  # (shape − usual) @ spread is within 1 for most of them

    def expected(self, adapted: Adapted) -> Expected:
        """Accuracy to expect, with an interval of 90 %."""
        x = task_evidence(adapted).to(self.level.weight)
        level, doubt = float(self.level(x)), float(self.doubt(x).exp())
        low, high = level - DEVIATIONS * doubt, level + DEVIATIONS * doubt
        overall, low, high = torch.tensor([level, low, high]).sigmoid().tolist()
        classes = self.own(class_evidence(adapted, level).to(self.own.weight))[:, 0].sigmoid()
        return Expected(classes, overall, low, high)

    def unknown_score(self, adapted: Adapted, features: Tensor) -> Tensor:
        """Probability [m] that an image belongs to none of the classes, were half of all images such."""
        return self.unknown(novelty(adapted, features).to(self.unknown.weight))[:, 0].sigmoid()

    def unlike(self, adapted: Adapted) -> float:
        """How unlike the task is to those learned from; of tasks of sets never met, one in twenty is above 1."""
        return float(((shape(adapted).to(self.usual) - self.usual) @ self.spread).norm())


def task_evidence(adapted: Adapted) -> Tensor:
    """What is known of a task's accuracy, [6]: shares of hits and confidence on unseen support images, and sizes."""
    n = adapted.support.n
    right, sure = _shares(adapted)
    several = n > 1
    return torch.stack([
        _logit(right[several].mean() if several.any() else right.mean()),
        _logit(sure[several].mean() if several.any() else sure.mean()),
        n.sum().log() / 2 - 2, n.new_tensor(math.log(len(n)) / 2 - 1),
        (~several).to(n).mean(), n.log().std(correction=0),
    ])  # fmt: skip


def class_evidence(adapted: Adapted, level: float) -> Tensor:
    """What is known of each class's accuracy, [C, 4]."""
    right, sure = _shares(adapted)
    n = adapted.support.n
    return torch.stack([
        torch.full_like(n, level), _logit(right) - _logit(right.mean()), _logit(sure) - _logit(sure.mean()),
        n.log() - n.log().mean(),
    ], 1)  # fmt: skip


def shape(adapted: Adapted) -> Tensor:
    """What a task's images look like as a cloud, whatever their classes are, [6].

    Logarithms of how far they lie apart, how many directions they fill, how close neighbours are, how evenly the
    numbers of their mean are used, and how many images and classes there are.
    """
    z, origin = adapted.support.z, adapted.frame.origin
    scatter = z.t() @ z
    filled = scatter.trace().square() / scatter.square().sum().clamp_min(1e-12)
    used = origin.abs().sum().square() / (len(origin) * origin.square().sum().clamp_min(1e-12))
    cloud = torch.stack([adapted.frame.unit, filled, nearest(z).mean(), used]).clamp_min(1e-6)
    return torch.cat([cloud, z.new_tensor([len(z), adapted.support.way])]).log()


def _shares(adapted: Adapted) -> tuple[Tensor, Tensor]:
    """Share of hits and mean probability of the truth in a class's unseen images, blended with the task's; [C] each.

    Where no class has two images, nothing is known: half way between chance and certainty.
    """
    support, p = adapted.support, adapted.held_out.to(adapted.support.z).exp()
    labels, n = support.labels, support.n
    several = n > 1
    found = []
    for values in ((p.argmax(1) == labels).to(p), p[torch.arange(len(labels)), labels]):
        total = values.new_zeros(support.way).index_add(0, labels, values)
        mean = (total / n)[several].mean() if several.any() else n.new_tensor((1 + 1 / support.way) / 2)
        counted = torch.where(several, n, 0.0)
        found.append((torch.where(several, total, 0.0) + PRIOR * mean) / (counted + PRIOR))
    return found[0], found[1]


def _logit(p: Tensor) -> Tensor:
    return torch.logit(p.clamp(0.01, 0.99))
