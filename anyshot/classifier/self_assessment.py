"""What a fitted classifier says about itself and its images: accuracy, labels, unknown images."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from anyshot.classifier.confidence.explanation import Explanation, explain
from anyshot.classifier.confidence.label_check import (
    LabelCheck,
    check_task_labels,
    find_near_duplicates,
)
from anyshot.classifier.confidence.unknown_tradeoff import UnknownTradeoff, estimate_tradeoff
from anyshot.classifier.fitted_state import FittedState, Images
from anyshot.classifier.heads.near_copies import merge_groups
from anyshot.classifier.sklearn_compat import InvalidInput


class SelfAssessment(FittedState):
    """The methods of `AnyShotClassifier` that say how far to trust it."""

    unknown_threshold: float | None

    def explain(self) -> Explanation:
        """Weight and evidence of each class, expected accuracy, labels that look wrong."""
        self._check_two_classes()
        names = [str(c) for c in self.classes_[self.seen_]]
        return explain(self.adapted_, self.weights_.confidence, names)

    def check_labels(self) -> LabelCheck:
        """Which labels look wrong, and which images are near-duplicates.

        Returns
        -------
        LabelCheck
            All support images, the most suspicious first, and pairs of near-duplicates (none if
            the inputs are vectors, which may be equal).

        Examples
        --------
        >>> spread = np.random.default_rng(0).normal(size=(20, 8))
        >>> spread[:10, 0] += 8  # image 3 belongs to "a" but is labelled "b"
        >>> from anyshot import AnyShotClassifier
        >>> y = np.where((np.arange(20) < 10) & (np.arange(20) != 3), "a", "b")
        >>> worst = AnyShotClassifier(backbone=None).fit(spread, y).check_labels().images[0]
        >>> worst.index, str(worst.label), str(worst.suggested)
        (3, 'b', 'a')
        """
        self._check_two_classes()
        names = self.classes_[self.seen_].tolist()
        images = check_task_labels(self.adapted_, self.weights_.confidence, names)
        if self.fit_params_["backbone"] is None:
            return LabelCheck(images, ())
        return LabelCheck(
            images, find_near_duplicates(self._last_layer(self.features_), self.labels_)
        )

    def unknown_score(self, X: Images) -> NDArray[np.float64]:
        """Probability (n_images,) that an image belongs to no class, at a prior of 50%."""
        self._check_two_classes()
        return self._unknown_scores(self._features(X))

    def is_unknown(self, X: Images) -> NDArray[np.bool_]:
        """Whether each image looks unlike all classes, shape (n_images,).

        Treat it as a hint: `unknown_tradeoff` estimates how often it is right.
        """
        return self.unknown_score(X) > self._unknown_threshold()

    def unknown_tradeoff(self) -> UnknownTradeoff:
        """What each `unknown_threshold` costs and finds, estimated from the support images.

        It fits up to 13 times, which takes about as many times as long as `fit` without features.

        Returns
        -------
        UnknownTradeoff
            Thresholds, the share of known images above each, and the share of unknown images.
        """
        self._check_two_classes()
        return estimate_tradeoff(
            self.weights_.confidence,
            merge_groups(torch.from_numpy(self.features_), self.adapted_.group_of_image),
            self.adapted_.support.labels,
            self.adapted_.support.folds,
            self._fit_heads,
            self._unknown_threshold(),
        )

    def _unknown_threshold(self) -> float:
        """The threshold of `is_unknown`: the parameter, or the calibrated one."""
        if self.unknown_threshold is None:
            return float(self.weights_.confidence.threshold)
        if not 0 <= self.unknown_threshold <= 1:
            raise InvalidInput(
                f"unknown_threshold is {self.unknown_threshold}; expected a number from 0 to 1, "
                "or None for the calibrated threshold."
            )
        return float(self.unknown_threshold)
