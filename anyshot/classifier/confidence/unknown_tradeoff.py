"""What a threshold for unknown images costs and finds, estimated from the task's own images.

Known images: the support images are split into folds; each is scored by heads that were fitted
without it. Unknown images: one class at a time is left out of the fit, and its images are scored as
images of no class. Every class counts the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import AdaptedLearner

THRESHOLDS = 99  # rows of the table: 0.01, 0.02, …, 0.99
MAX_CLASSES = 8  # classes that are left out in turn
Fit = Callable[[Tensor, Tensor], AdaptedLearner]  # features [n, d] and labels [n] to heads


@dataclass(frozen=True, eq=False)
class UnknownTradeoff:
    """What each threshold of `is_unknown` costs and finds.

    Attributes
    ----------
    threshold : float
        The threshold that the classifier uses.
    thresholds : ndarray of shape (n_thresholds,)
        Possible thresholds, increasing.
    known_flagged : ndarray of shape (n_thresholds,)
        Expected share of images of the known classes whose score is above the threshold.
    unknown_found : ndarray of shape (n_thresholds,)
        Expected share of images of no known class whose score is above the threshold.
    """

    threshold: float
    thresholds: NDArray[np.float64]
    known_flagged: NDArray[np.float64]
    unknown_found: NDArray[np.float64]

    def at(self, threshold: float) -> tuple[float, float]:
        """Share of known images flagged and of unknown images found at a threshold."""
        return (
            float(np.interp(threshold, self.thresholds, self.known_flagged)),
            float(np.interp(threshold, self.thresholds, self.unknown_found)),
        )


def estimate_tradeoff(
    confidence: ConfidenceModel,
    features: Tensor,
    labels: Tensor,
    folds: Tensor,
    fit: Fit,
    threshold: float,
) -> UnknownTradeoff:
    """The trade-off of a task: features [N, d], labels [N] in 0..C−1 and folds [N] (−1: none)."""
    thresholds = np.arange(1, THRESHOLDS + 1) / (THRESHOLDS + 1)
    known, unknown = [], []
    for fold in range(int(folds.max()) + 1):
        inside = folds != fold
        adapted = fit(features[inside], labels[inside])
        scores = confidence.unknown_score(adapted, features[~inside])
        known.append((labels[~inside], scores))
    classes = int(labels.max()) + 1
    for c in range(min(classes, MAX_CLASSES) if classes > 2 else 0):
        inside = labels != c
        adapted = fit(features[inside], labels[inside] - (labels[inside] > c).long())
        unknown.append((labels[~inside], confidence.unknown_score(adapted, features[~inside])))
    return UnknownTradeoff(
        threshold=threshold,
        thresholds=thresholds,
        known_flagged=_share_above(known, thresholds),
        unknown_found=_share_above(unknown, thresholds),
    )


def _share_above(
    scored: list[tuple[Tensor, Tensor]], thresholds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of scores above each threshold, the mean over classes; NaN if there are no scores."""
    if not scored:
        return np.full(len(thresholds), np.nan)
    labels = torch.cat([label for label, _ in scored]).numpy()
    scores = torch.cat([score for _, score in scored]).double().numpy()
    above = scores[:, None] > thresholds
    return np.mean([above[labels == c].mean(0) for c in np.unique(labels)], 0)
