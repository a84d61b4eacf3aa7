"""The confidence model: expected accuracy, unknown images and unfamiliar tasks.

All three are computed from the images of the task, with a few numbers that are meta-learned on
tasks of many data sets. `expected_accuracy` holds the accuracy of the task; that of a class differs
from it by the results on its held-out images. `novelty_features` holds the inputs of the unknown
score. The unfamiliarity of a task is the Mahalanobis distance of its descriptor from those of the
training tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.confidence.expected_accuracy import (
    AccuracyModel,
    class_averages,
)
from anyshot.classifier.confidence.label_features import LABEL_FEATURES
from anyshot.classifier.confidence.novelty_features import (
    NOVELTY_FEATURES,
    NoveltyReference,
    nearest_distances,
    novelty_features,
)
from anyshot.classifier.heads.learner import AdaptedLearner

PSEUDO_COUNT = 2.0  # weight of the task's mean in a class's mean, in images
CLASS_FEATURES = 3  # numbers of class_accuracy_features
#: weights of the label model before it is trained: the held-out odds alone; single images are fine
UNTRAINED_LABEL = (1.0, 0.0, 0.0, -5.0, 0.0, 0.0, 0.0)
THRESHOLDS = torch.arange(1, 100) / 100  # of unknown scores, in tables
DESCRIPTOR_SIZE = 6  # numbers of task_descriptor


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Expected accuracy on 15 test images a class: of each class [C], their mean, 90% interval."""

    classes: Tensor
    overall: float
    low: float
    high: float


class ConfidenceModel(nn.Module):
    """Meta-learned: accuracy model, linear models for classes and novelty, familiar descriptors."""

    threshold: Tensor
    curves: Tensor
    usual: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.accuracy = AccuracyModel()
        # The attributes are the names of tensors in weights files.
        self.own = nn.Linear(CLASS_FEATURES, 1)  # accuracy of classes relative to their task
        self.unknown = nn.Linear(NOVELTY_FEATURES, 1)
        self.label = nn.Linear(LABEL_FEATURES, 1)  # log odds that a label is wrong
        for linear in (self.own, self.unknown, self.label):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.label.weight.data[0] = torch.tensor(UNTRAINED_LABEL)
        self.register_buffer("threshold", torch.tensor(0.5))  # of unknown images
        # usual shares of known and of unknown images above each of THRESHOLDS [2, T]; 0: not known
        self.register_buffer("curves", torch.zeros(2, len(THRESHOLDS)))
        self.register_buffer("usual", torch.zeros(DESCRIPTOR_SIZE))  # mean training descriptor
        # (descriptor − usual) @ spread has a length below 1 for most training tasks
        self.register_buffer("spread", torch.eye(DESCRIPTOR_SIZE))

    def expected_accuracy(self, adapted: AdaptedLearner) -> ExpectedAccuracy:
        """Expected accuracy of the task and its classes, with a 90% interval.

        The evidence may have two readings: images may be of the same series or not, and the results
        of a single class of several images may count or not. The accuracy is the mean of the
        readings, and the interval has room for all.
        """
        readings = [self.accuracy.interval(adapted)]
        if adapted.as_series is not None:
            readings.append(self.accuracy.interval(adapted.as_series))
        if int((adapted.support.counts > 1).sum()) == 1:
            readings.append(self.accuracy.interval(adapted, lone=True))
        expected, lows, highs = zip(*readings, strict=True)
        overall, low, high = sum(expected) / len(readings), min(lows), max(highs)
        relative = self.own(class_accuracy_features(adapted).to(self.own.weight))[:, 0]
        return ExpectedAccuracy(shift_to_mean(relative, overall), overall, low, high)

    def unknown_score(
        self,
        adapted: AdaptedLearner,
        features: Tensor,
        reference: NoveltyReference | None = None,
        answers: Tensor | None = None,
    ) -> Tensor:
        """Probability [m] that an image belongs to no class, at a prior of 50%."""
        x = novelty_features(adapted, features, reference, answers).to(self.unknown.weight)
        return self.unknown(x)[:, 0].sigmoid()

    def label_suspicion(self, features: Tensor) -> Tensor:
        """Probability [N] that a label is wrong, from its `label_features` [N, LABEL_FEATURES]."""
        return self.label(features.to(self.label.weight))[:, 0].sigmoid()

    def unfamiliarity(self, adapted: AdaptedLearner) -> float:
        """Distance of the task from the training tasks; above 1 for one in twenty new tasks."""
        offset = task_descriptor(adapted).to(self.usual) - self.usual
        return float((offset @ self.spread).norm())


def class_accuracy_features(adapted: AdaptedLearner) -> Tensor:
    """Evidence on each class relative to its task [C, 3].

    Logit of the held-out probability of the truth (blended with the task's mean), log size, and
    whether the class has one image only.
    """
    support, counts = adapted.support, adapted.support.counts
    images = torch.arange(len(support.labels))
    truth = adapted.held_out.to(counts)[images, support.labels].exp()
    several = counts > 1
    held_out_count = torch.where(several, counts, 0.0)
    means = class_averages(adapted, truth)
    level = means[several].mean() if several.any() else counts.new_tensor(0.5)
    confidence = (
        (held_out_count * means + PSEUDO_COUNT * level) / (held_out_count + PSEUDO_COUNT)
    ).logit(0.01)
    log_size = counts.log()
    return torch.stack(
        [confidence - confidence.mean(), log_size - log_size.mean(), (counts == 1).to(counts)], 1
    )


def shift_to_mean(logits: Tensor, mean: float) -> Tensor:
    """Shares [C] = sigmoid(logits + shift), with the shift (by bisection) that gives this mean.

    >>> shift_to_mean(torch.tensor([-1.0, 0.0, 1.0]), 0.5)
    tensor([0.2689, 0.5000, 0.7311])
    """
    low, high = -40.0, 40.0
    for _ in range(50):
        middle = (low + high) / 2
        above = float((logits.double() + middle).sigmoid().mean()) > mean
        low, high = (low, middle) if above else (middle, high)
    return (logits + middle).sigmoid()


def task_descriptor(adapted: AdaptedLearner) -> Tensor:
    """What a task's images look like as a point cloud, without their labels [6].

    Logarithms of: mean distance from the origin, effective number of dimensions, mean distance of
    nearest neighbours, how evenly the features of the mean are used, number of images and classes.
    """
    z, origin = adapted.support.z, adapted.frame.origin
    scatter = z.t() @ z
    dimensions = scatter.trace().square() / scatter.square().sum().clamp_min(1e-12)
    used = origin.abs().sum().square() / (len(origin) * origin.square().sum().clamp_min(1e-12))
    neighbours = nearest_distances(z).mean()
    cloud = torch.stack([adapted.frame.unit, dimensions, neighbours, used]).clamp_min(1e-6)
    return torch.cat([cloud, z.new_tensor([len(z), adapted.support.way])]).log()
