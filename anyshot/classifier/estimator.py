"""`AnyShotClassifier`: a few images of each class in, predictions that say how sure they are out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from anyshot.classifier.active_learning import choose
from anyshot.classifier.backbones import Backbone, Picture, features_of, open_backbone, to_pixels
from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.confidence.explanation import Explanation, explain
from anyshot.classifier.heads.learner import AdaptedLearner
from anyshot.classifier.serialization import load_classifier, save_classifier
from anyshot.classifier.sklearn_compat import (
    Estimator,
    InvalidInput,
    check_labels,
    check_vectors,
    is_fitted,
)
from anyshot.classifier.weights import open_weights
from anyshot.core.errors import AnyshotError

CHUNK = 1000  # images scored at once


class AnyShotClassifier(Estimator):
    """Learns classes from any number of images each, and follows scikit-learn's contract for estimators.

    backbone   what turns images into vectors: a name ("efficientnet-lite0", "timm:NAME" …), a folder of a run, a module
               or a function (see `anyshot.classifier.backbones`); None: the inputs are vectors already, [n, d]
    weights    what meta-training learned about learning from vectors: a name ("photos-lite0"), or a folder
    side       images are resized to side x side; None: the backbone's own size
    device     where the backbone runs

    >>> colours = lambda pixels: pixels.mean((1, 2)) + 1.0  # any function of images [n, side, side, 3]
    >>> reds, blues = np.zeros((2, 3, 8, 8, 3), np.uint8)
    >>> reds[..., 0], blues[..., 2] = 200, 200
    >>> clf = AnyShotClassifier(backbone=colours, side=8).fit([*reds, *blues], ["red"] * 3 + ["blue"] * 3)
    >>> clf.predict([reds[0], blues[0]])
    array(['red', 'blue'], dtype='<U4')
    """

    def __init__(
        self,
        backbone: Source | None = "efficientnet-lite0",
        *,
        weights: str | Path = "photos-lite0",
        side: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.backbone = backbone
        self.weights = weights
        self.side = side
        self.device = device

    # ------------------------------------------------------------------------------------------------ learning
    def fit(self, X: Sequence[Picture] | NDArray[Any], y: ArrayLike) -> AnyShotClassifier:
        """Learn from images (arrays, PIL images or paths) and their labels; any number per class."""
        self._open(X)
        return self._learn(*self._checked(X, y, first=True))

    def partial_fit(
        self, X: Sequence[Picture] | NDArray[Any], y: ArrayLike, classes: ArrayLike | None = None
    ) -> AnyShotClassifier:
        """Learn from more images, of old or new classes; what was learned before stays.

        `classes` is part of scikit-learn's contract; classes are known from their first image on, announced or not.
        """
        if not is_fitted(self):
            return self.fit(X, y)
        features, labels = self._checked(X, y)
        return self._learn(
            np.concatenate([self.features_, features]),
            np.concatenate([self.classes_[self.labels_], labels]),
        )

    def _open(self, X: Sequence[Picture] | NDArray[Any]) -> None:
        self.learned_ = open_weights(self.weights)
        self.backbone_: Backbone | None = None
        self.reference_: NDArray[np.uint8] | None = (
            None  # images whose statistics the backbone borrows, if it does
        )
        if self.backbone is not None:
            self.backbone_ = open_backbone(self.backbone, side=self.side, device=self.device)
            if self.backbone_.bind:
                self.reference_ = np.stack([to_pixels(x, self.backbone_.side) for x in X])
                self.backbone_ = self.backbone_.bind(self.reference_)

    def _checked(
        self, X: Sequence[Picture] | NDArray[Any], y: ArrayLike, first: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Features and labels; the labels of pictures are checked first, since features of pictures take time."""
        if self.backbone is None:
            features = self._features(X, first)
            return features, check_labels(y, len(features))
        labels = check_labels(y, len(X))
        return self._features(X), labels

    def _learn(self, features: NDArray[np.float32], labels: NDArray[Any]) -> AnyShotClassifier:
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.features_, self.labels_ = features, codes.astype(np.int64)
        if len(self.classes_) > 1:
            self.adapted_: AdaptedLearner = self.learned_.learner.adapt(
                torch.from_numpy(features),
                torch.from_numpy(self.labels_),
                native=self.backbone == self.learned_.config["backbone"],
            )
        return self

    # ------------------------------------------------------------------------------------------------ answers
    def predict_proba(self, X: Sequence[Picture] | NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities [images, classes], columns as in `classes_`; no image's depend on another's."""
        is_fitted(self, strict=True)
        return self._probabilities(self._features(X))

    def predict(self, X: Sequence[Picture] | NDArray[Any]) -> NDArray[Any]:
        """The most probable class of each image."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(1)]

    def unknown_score(self, X: Sequence[Picture] | NDArray[Any]) -> NDArray[np.float64]:
        """How likely it is [images] that an image belongs to none of the classes, were half of all images such."""
        is_fitted(self, strict=True)
        self._needs_two_classes()
        return self._unknown(self._features(X))

    def is_unknown(self, X: Sequence[Picture] | NDArray[Any]) -> NDArray[np.bool_]:
        """Which images are like none of the classes; a hint: see docs/classifier.md for how often it is right."""
        return self.unknown_score(X) > float(self.learned_.outlook.threshold)

    def transform(self, X: Sequence[Picture] | NDArray[Any]) -> NDArray[np.float32]:
        """The backbone's features, float32 [images, width]."""
        is_fitted(self, strict=True)
        return self._features(X)

    def explain(self) -> Explanation:
        """Weight and evidence of each class, accuracy to expect, and which class would gain most from more images."""
        is_fitted(self, strict=True)
        self._needs_two_classes()
        return explain(self.adapted_, self.learned_.outlook, [str(c) for c in self.classes_])

    def label_next(self, X: Sequence[Picture] | NDArray[Any], count: int = 20) -> NDArray[np.int64]:
        """Which of these unlabelled images to label first: their indices, the most useful first."""
        is_fitted(self, strict=True)
        self._needs_two_classes()
        return np.array(choose(self.adapted_, torch.from_numpy(self._features(X)), count), np.int64)

    # ------------------------------------------------------------------------------------------------ keeping
    def save(self, folder: str | Path) -> None:
        """Write what was learned to a folder, as safetensors and JSON; the backbone is named, not copied."""
        save_classifier(self, folder)

    @classmethod
    def load(
        cls, folder: str | Path, *, backbone: Source | None = None, device: str = "cpu"
    ) -> AnyShotClassifier:
        """What `save` wrote; a module or function that was the backbone must be given again."""
        return load_classifier(cls(device=device), folder, backbone)

    save_pretrained = save
    from_pretrained = load

    def _features(
        self, X: Sequence[Picture] | NDArray[Any], first: bool = False
    ) -> NDArray[np.float32]:
        if self.backbone_ is None:
            return check_vectors(self, X, first)
        if isinstance(X, str | Path):
            raise InvalidInput(f"Images were given as one path, {str(X)!r}; give a list of paths.")
        features = features_of(list(X), self.backbone_)
        if not np.isfinite(features).all():
            raise InvalidInput(
                f"The backbone {self.backbone_.name!r} made features that are not finite numbers."
            )
        return features

    def _probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        if len(self.classes_) == 1:
            return np.ones((len(features), 1))
        p = torch.cat(
            [self.adapted_(chunk).exp() for chunk in torch.from_numpy(features).split(CHUNK)]
        )
        return (p / p.sum(1, keepdim=True)).numpy()

    def _unknown(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        outlook = self.learned_.outlook
        parts = [
            outlook.unknown_score(self.adapted_, f) for f in torch.from_numpy(features).split(CHUNK)
        ]
        return torch.cat(parts).double().numpy()

    def _needs_two_classes(self) -> None:
        if len(self.classes_) < 2:
            raise AnyshotError(
                f"Only the class {self.classes_[0]!r} is known; give images of a second class first."
            )
