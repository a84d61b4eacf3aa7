"""What a fitted classifier says about itself, as numbers and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anyshot.classifier.confidence.label_check import (
    SUSPICIOUS,
    CheckedLabel,
    check_task_labels,
)
from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import HEADS, AdaptedLearner

MORE_IMAGES = 5  # number of additional images that `gain` is about
MAX_SUSPECTS = 5  # images with suspicious labels that the text names
ERROR_EXPONENT = 0.5  # errors fall about as n^−½


@dataclass(frozen=True)
class ClassEvidence:
    """One class of a fitted classifier.

    Attributes
    ----------
    name : str
        The class label.
    images : int
        Number of support images.
    weight : float
        The class weight ω; 1 is an even share.
    trust : dict of str to float
        Weight of each head for this class; the sum is 1.
    expected : float
        Expected accuracy on new images of the class.
    gain : float
        Expected gain of overall accuracy from MORE_IMAGES more images of the class.
    groups : int
        Number of support images if near-copies count as one.
    """

    name: str
    images: int
    weight: float
    trust: dict[str, float]
    expected: float
    gain: float
    groups: int


@dataclass(frozen=True)
class Explanation:
    """A fitted classifier: its classes, expected accuracy, and the class to photograph next.

    Attributes
    ----------
    classes : tuple of ClassEvidence
        One entry for each class.
    expected, low, high : float
        Expected accuracy on new images, and its 90% interval.
    unfamiliarity : float
        Above 1 if the images are unlike those of meta-training; the numbers are less reliable then.
    suspects : tuple of CheckedLabel
        Support images whose label looks wrong, the most suspicious first.
    series : int or None
        Number of support images if those of a series also count as one; None if there are none.
    """

    classes: tuple[ClassEvidence, ...]
    expected: float
    low: float
    high: float
    unfamiliarity: float
    suspects: tuple[CheckedLabel, ...] = ()
    series: int | None = None

    @property
    def next_class(self) -> str:
        """The class that would gain most from more images."""
        return max(self.classes, key=lambda c: c.gain).name

    @property
    def near_copies(self) -> str:
        """What near-copies and series of images count, or an empty string."""
        images, groups = (sum(getattr(c, k) for c in self.classes) for k in ("images", "groups"))
        found = []
        if images > groups:
            found.append(f"{images} images count as {groups}, because near-copies count as one.")
        if self.series is not None:
            found.append(
                "If images that look alike show the same object, there are only "
                f"{self.series} different ones; the interval allows for this."
            )
        return " ".join(found)

    @property
    def caution(self) -> str:
        """A warning if the expected accuracy is a guess or the task unfamiliar, else empty."""
        if sum(c.groups > 1 for c in self.classes) < 2 <= len(self.classes):
            return "The expected accuracy is a guess until two classes have several images each."
        if self.unfamiliarity > 1:
            return (
                "These images differ from those that anyshot was tuned on: trust the numbers less."
            )
        return ""

    def __str__(self) -> str:
        lines = [
            f"Expected accuracy on new images: {self.expected:.0%} "
            f"(90% interval {self.low:.0%} to {self.high:.0%})"
        ]
        for c in self.classes:
            images = f"{c.images} image{'s' * (c.images != 1)}"
            lines.append(f"{c.name}: {images}, weight {c.weight:.2f}, expected {c.expected:.0%}")
        if self.near_copies:
            lines.append(self.near_copies)
        lines.append(f"More images of {self.next_class} would help most.")
        if self.suspects:
            named = [
                f"image {s.index} ({s.label}, perhaps {s.suggested})"
                for s in self.suspects[:MAX_SUSPECTS]
            ]
            count = len(self.suspects)
            more = f"; and {count - MAX_SUSPECTS} more" if count > MAX_SUSPECTS else ""
            lines.append(f"Labels that look wrong: {'; '.join(named)}{more}.")
        if self.caution:
            lines.append(self.caution)
        return "\n".join(lines)


def explain(
    adapted: AdaptedLearner, confidence: ConfidenceModel, names: Sequence[str]
) -> Explanation:
    """The explanation of a fitted task, with the names of its classes."""
    accuracy = confidence.expected_accuracy(adapted)
    counts, weights = adapted.support.counts, adapted.weights
    images = adapted.support.labels[adapted.group_of_image].bincount()
    gains = accuracy_gain(accuracy.classes, counts)
    classes = tuple(
        ClassEvidence(
            name=name,
            images=int(images[c]),
            weight=float(weights.omega[c]),
            trust=dict(zip(HEADS, weights.trust[:, c].tolist(), strict=True)),
            expected=float(accuracy.classes[c]),
            gain=float(gains[c]),
            groups=int(counts[c]),
        )
        for c, name in enumerate(names)
    )
    series = adapted.as_series
    return Explanation(
        classes=classes,
        series=None if series is None else len(series.held_out),
        expected=accuracy.overall,
        low=accuracy.low,
        high=accuracy.high,
        unfamiliarity=confidence.unfamiliarity(adapted),
        suspects=tuple(
            label
            for label in check_task_labels(adapted, confidence, names)
            if label.suspicion >= SUSPICIOUS
        ),
    )


def accuracy_gain(expected: Tensor, counts: Tensor) -> Tensor:
    """Gain of overall accuracy [C] from MORE_IMAGES more images of one class.

    The errors of a class are assumed to fall as n^−ERROR_EXPONENT.
    """
    remaining = (counts / (counts + MORE_IMAGES)) ** ERROR_EXPONENT
    return (1 - expected) * (1 - remaining) / len(counts)
