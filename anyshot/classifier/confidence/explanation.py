"""What a learned task says of itself, in words and numbers for the person whose images they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import HEADS, AdaptedLearner

HELP = 5  # more images, in the question which class would gain most from them
RATE = 0.5  # errors fall about as n^−½


@dataclass(frozen=True)
class ClassEvidence:
    """One class: its images, its weight ω, how far each head is trusted, accuracy to expect, gain of more images."""

    name: str
    images: int
    weight: float
    trust: dict[str, float]  # of each head
    expected: float
    gain: float  # of overall accuracy, should the class have HELP more images


@dataclass(frozen=True)
class Explanation:
    """A task: its classes, accuracy to expect with a 90 % interval, the class to photograph next.

    unlike: above 1 if the task is unlike those that were learned from, so that these figures deserve less trust
    """

    classes: tuple[ClassEvidence, ...]
    expected: float
    low: float
    high: float
    unlike: float

    @property
    def next(self) -> str:
        """The class that would gain most from more images."""
        return max(self.classes, key=lambda c: c.gain).name

    @property
    def caution(self) -> str:
        """A sentence, where the task is unlike those learned from."""
        unusual = "These images are unlike those that the figures come from; trust them less."
        return unusual if self.unlike > 1 else ""

    def __str__(self) -> str:
        lines = [f"{c.name}: {c.images} image{'s' * (c.images != 1)}, weight {c.weight:.2f}, expected {c.expected:.0%}"
                 for c in self.classes]  # fmt: skip
        return "\n".join([
            f"Expected accuracy on new images: {self.expected:.0%} (90 % interval {self.low:.0%} to {self.high:.0%})",
            *lines,
            f"More images of {self.next} would help most.",
            *([self.caution] if self.caution else []),
        ])  # fmt: skip


def explain(adapted: AdaptedLearner, outlook: ConfidenceModel, names: Sequence[str]) -> Explanation:
    """Of a learned task and the names of its classes."""
    expected = outlook.expected(adapted)
    n, weights = adapted.support.n, adapted.weights
    gains = gain(expected.classes, n)
    classes = tuple(
        ClassEvidence(
            name, int(n[c]), float(weights.omega[c]),
            dict(zip(HEADS, weights.trust[:, c].tolist(), strict=True)), float(expected.classes[c]), float(gains[c]),
        )
        for c, name in enumerate(names)
    )  # fmt: skip
    return Explanation(
        classes, expected.overall, expected.low, expected.high, outlook.unlike(adapted)
    )


def gain(expected: Tensor, n: Tensor) -> Tensor:
    """Of overall accuracy, for HELP more images of each class alone: its errors fall as n^−RATE."""
    return (1 - expected) * (1 - (n / (n + HELP)) ** RATE) / len(n)
