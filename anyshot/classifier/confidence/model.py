"""How sure to be: expected accuracy before there is a test set, images like none of the classes, tasks like none met.

All three come from what a task's own images say, by a few numbers that are meta-learned on tasks of many sets.

Accuracy: `anyshot.classifier.confidence.expected_accuracy`; of each class, as the images of it that were left out differ from the others.
Unknown images: the odds, from `anyshot.classifier.confidence.unknown_images`. Tasks unlike anything learned from: the Mahalanobis distance of
a task's shape from those that were learned from.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.confidence.expected_accuracy import Accuracy, by_class
from anyshot.classifier.confidence.unknown_images import CLUES, nearest, unknown_features
from anyshot.classifier.heads.learner import AdaptedLearner

PRIOR = 2.0  # images that what is known of a class is blended with
OWN, SHAPE = 3, 6  # numbers of class_evidence and shape


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Accuracy to expect on a test of 15 images a class: of each [C]; of all, their mean, with its 90 % interval."""

    classes: Tensor
    overall: float
    low: float
    high: float


class ConfidenceModel(nn.Module):
    """Meta-learned: a task's accuracy, linear models for its classes and for unknown images, and usual shapes."""

    threshold: Tensor
    usual: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.accuracy, self.own, self.unknown = Accuracy(), nn.Linear(OWN, 1), nn.Linear(CLUES, 1)
        for part in (self.own, self.unknown):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)
        self.register_buffer("threshold", torch.tensor(0.5))  # above it an image counts as unknown
        self.register_buffer("usual", torch.zeros(SHAPE))  # mean shape of the tasks learned from
        self.register_buffer(
            "spread", torch.eye(SHAPE)
        )  # (shape − usual) @ spread is within 1 for most of them

    def expected(self, adapted: AdaptedLearner) -> ExpectedAccuracy:
        """Accuracy to expect, with an interval of 90 %."""
        overall, low, high = self.accuracy.interval(adapted)
        own = self.own(class_evidence(adapted).to(self.own.weight))[:, 0]
        return ExpectedAccuracy(with_mean(own, overall), overall, low, high)

    def unknown_score(self, adapted: AdaptedLearner, features: Tensor) -> Tensor:
        """Probability [m] that an image belongs to none of the classes, were half of all images such."""
        return self.unknown(unknown_features(adapted, features).to(self.unknown.weight))[
            :, 0
        ].sigmoid()

    def unlike(self, adapted: AdaptedLearner) -> float:
        """How unlike the task is to those learned from; of tasks of sets never met, one in twenty is above 1."""
        return float(((task_descriptor(adapted).to(self.usual) - self.usual) @ self.spread).norm())


def class_evidence(adapted: AdaptedLearner) -> Tensor:
    """What is known of each class beyond its task, [C, 3]: logit of the probability of the truth, size, if alone.

    That probability is the mean over the class's unseen images, blended with the task's mean.
    """
    support, n = adapted.support, adapted.support.n
    own = adapted.held_out.to(n)[torch.arange(len(support.labels)), support.labels].exp()
    several, counted, means = n > 1, torch.where(n > 1, n, 0.0), by_class(adapted, own)
    level = means[several].mean() if several.any() else n.new_tensor(0.5)
    sure = ((counted * means + PRIOR * level) / (counted + PRIOR)).logit(0.01)
    return torch.stack([sure - sure.mean(), n.log() - n.log().mean(), (n == 1).to(n)], 1)


def with_mean(logits: Tensor, mean: float) -> Tensor:
    """Shares [C] whose logits differ as these do, moved by what gives the shares that mean (by bisection).

    >>> with_mean(torch.tensor([-1.0, 0.0, 1.0]), 0.5)
    tensor([0.2689, 0.5000, 0.7311])
    """
    low, high = -40.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        above = float((logits.double() + middle).sigmoid().mean()) > mean
        low, high = (low, middle) if above else (middle, high)
    return (logits + middle).sigmoid()


def task_descriptor(adapted: AdaptedLearner) -> Tensor:
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
