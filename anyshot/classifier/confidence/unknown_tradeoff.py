"""What a threshold for unknown images costs and finds, estimated from the task's own images.

Known images: the support images are split into folds; each is scored by heads that were fitted
without it. Unknown images: one class at a time is left out of the fit, and its images are scored as
images of no class. Every class counts the same. The shares are blended with PSEUDO_IMAGES images of
the usual shares, those of left-out data sets; with two classes no class can be left out, and the
usual share of unknown images stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.confidence.model import THRESHOLDS, ConfidenceModel
from anyshot.classifier.heads.learner import AdaptedLearner

PSEUDO_IMAGES = 30.0  # weight of the usual shares, in images
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
        thresholds=THRESHOLDS.double().numpy(),
        known_flagged=_blend(known, confidence.curves[0]),
        unknown_found=_blend(unknown, confidence.curves[1]),
    )


def _blend(scored: list[tuple[Tensor, Tensor]], usual: Tensor) -> NDArray[np.float64]:
    """Share of scores above each threshold, the mean over classes, blended with the usual one.

    NaN if there is neither (a model that is not trained has no usual shares).
    """
    known = bool(usual.any())
    if not scored:
        return np.where(known, usual.double().numpy(), np.nan)
    labels = torch.cat([label for label, _ in scored])
    above = (torch.cat([score for _, score in scored])[:, None] > THRESHOLDS).double()
    share = torch.stack([above[labels == c].mean(0) for c in labels.unique()]).mean(0)
    pseudo = PSEUDO_IMAGES * known
    blended = (len(labels) * share + pseudo * usual.double()) / (len(labels) + pseudo)
    return blended.numpy()
