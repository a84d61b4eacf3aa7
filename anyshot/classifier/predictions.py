"""The result of one feature pass over images: probabilities, novelty and repeated images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHIFTED = 0.2  # share of images unlike all classes; the calibrated threshold flags 1 in 20 known
SHIFT_FROM = 20  # images


def describe_shift(unknown: int, count: int) -> str:
    """One sentence if many of `count` new images are unlike all classes, otherwise empty.

    >>> describe_shift(2, 40)
    ''
    """
    if count < SHIFT_FROM or unknown < SHIFTED * count:
        return ""
    return (
        f"{unknown} of {count} new photos look unlike the photos of all classes; about one in "
        "twenty is usual. If they do belong to the classes, the expected accuracy is too high "
        "for them: learn from photos that are more like them."
    )


@dataclass(frozen=True, eq=False)
class Predictions:
    """Everything that the classifier says about some images, from a single pass of the backbone.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels; the columns of `probabilities` follow this order.
    probabilities : ndarray of shape (n_images, n_classes), float64
        Class probabilities; each row sums to 1.
    unknown_scores : ndarray of shape (n_images,), float64
        Probability that the image belongs to none of the classes, if half of all images did.
    unknown : ndarray of shape (n_images,), bool
        Whether the score is above the calibrated threshold.
    features : ndarray of shape (n_images, n_features), float32
        The features that the answers were computed from.
    support_matches : ndarray of shape (n_images,), int64
        Index of the support image that is the same image, or −1. Such images say nothing about
        the accuracy on new ones.
    """

    classes: NDArray[Any]
    probabilities: NDArray[np.float64]
    unknown_scores: NDArray[np.float64]
    unknown: NDArray[np.bool_]
    features: NDArray[np.float32]
    support_matches: NDArray[np.int64]

    @property
    def labels(self) -> NDArray[Any]:
        """The most probable class of each image, shape (n_images,)."""
        return self.classes[self.probabilities.argmax(1)]
