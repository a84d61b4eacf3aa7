"""The state of a fitted classifier, and the steps from images to answers that its methods share."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anyshot.classifier.backbones import (
    Backbone,
    ImageLike,
    block_widths,
    compute_features,
    open_backbone,
    to_pixels,
)
from anyshot.classifier.backbones.backbone import Source, backbone_of_quality
from anyshot.classifier.class_prior import EVEN, ClassPrior, class_shares
from anyshot.classifier.heads.learner import AdaptedLearner
from anyshot.classifier.repeated_images import describe_conflicts, describe_copies, find_repeated
from anyshot.classifier.sklearn_compat import (
    Estimator,
    InvalidInput,
    check_images,
    check_labels,
    check_vectors,
    is_fitted,
)
from anyshot.classifier.weights import ClassifierWeights, open_weights
from anyshot.core.errors import ClassifierError
from anyshot.core.text import readable

log = logging.getLogger(__name__)

CHUNK = 1000  # images scored at once

Images = Sequence[ImageLike] | NDArray[Any]


class FittedState(Estimator):
    """Base class of `AnyShotClassifier`: its attributes after a fit, and how they are computed."""

    backbone: Source | None
    weights: str | Path
    quality: str
    side: int | None
    device: str
    trust_code: bool
    class_prior: ClassPrior

    # -------------------------------------------------------------------------------------- fitting
    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Restore all attributes if the block fails; attributes are replaced, never modified."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _start_fit(self) -> None:
        for name in ("classes_", "features_"):  # not fitted while the fit is under way
            vars(self).pop(name, None)
        self.weights_: ClassifierWeights = open_weights(self.weights)
        self.fit_params_: dict[str, Any] = Estimator.get_params(self, deep=False)
        self.fit_params_["backbone"] = backbone_of_quality(self.quality, self.backbone)
        self.backbone_: Backbone | None = None
        self.reference_: NDArray[np.uint8] | None = None  # images whose statistics a body uses

    def _features_and_labels(
        self, X: Images, y: ArrayLike, first: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Features and labels. Image labels are checked first, because features take time."""
        if self.fit_params_["backbone"] is None:
            features = check_vectors(self, X, first)
            return features, check_labels(y, len(features))
        X = check_images(X)
        labels = check_labels(y, len(X))
        if first and self._open_backbone().bind:
            self.reference_ = np.stack([to_pixels(x, self._open_backbone().side) for x in X])
            X = list(self.reference_)
        return self._features(X), labels

    def _adapt(
        self,
        features: NDArray[np.float32],
        labels: NDArray[Any],
        announced: NDArray[Any] | None = None,
    ) -> None:
        """Fit the heads; classes that are announced without images get no head."""
        self.classes_ = np.unique(
            labels if announced is None else np.concatenate([labels, announced])
        )
        self.features_ = features
        self.labels_: NDArray[np.int64] = np.searchsorted(self.classes_, labels).astype(np.int64)
        self.seen_: NDArray[np.int64] = np.unique(self.labels_)  # classes with images
        self.conflicts_: list[tuple[int, int]] = []  # feature vectors of the user may be equal
        self.copies_: list[tuple[int, int]] = []
        if self.fit_params_["backbone"] is not None:
            self.conflicts_, self.copies_ = find_repeated(features, self.labels_)
        expected = len(self.weights_.learner.directions)
        if self._is_native() and expected and self._last_layer(features).shape[1] != expected:
            raise InvalidInput(
                f"There are {features.shape[1]} features, but {self.fit_params_['backbone']} "
                f"computes {int(self.weights_.learner.widths.sum()) or expected}, the first "
                f"{expected} of them in its last layer; give all, or the last layer."
            )
        self._class_shares(self.class_prior)  # an error if the prior does not fit the classes
        if len(self.seen_) > 1:
            self.adapted_: AdaptedLearner = self._fit_heads(
                torch.from_numpy(features),
                torch.from_numpy(np.searchsorted(self.seen_, self.labels_)),
                merge=self.fit_params_["backbone"] is not None,  # similar vectors are no copies
            )

    def _fit_heads(self, features: Tensor, labels: Tensor, merge: bool = False) -> AdaptedLearner:
        """The heads for features [n, d] and labels [n] in 0..C−1, all of them present."""
        widths = block_widths(self.fit_params_["backbone"], features.shape[1])
        try:
            learner = self.weights_.learner
            return learner.adapt_for_use(features, labels, self._is_native(), widths, merge)
        except torch.linalg.LinAlgError as error:
            raise self._unusable_weights() from error

    def _unusable_weights(self) -> ClassifierError:
        return ClassifierError(
            f"The weights '{self.fit_params_['weights']}' give no finite probabilities for these "
            "features; they are damaged, or the features are unusual. Use other weights."
        )

    def _last_layer(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """The first block of features [n, d], which is the backbone's last layer."""
        widths = block_widths(self.fit_params_["backbone"], features.shape[1])
        return features[:, : widths[0]] if widths else features

    def _is_native(self) -> bool:
        """Whether the learner was meta-trained on features of this backbone."""
        return bool(self.fit_params_["backbone"] == self.weights_.config["backbone"])

    def _warn_about_repeated(self, X: Images | None = None) -> None:
        """Warn if the same image is there twice; X are the images, if all are known."""
        if not self.conflicts_ and not self.copies_:
            return
        names = [f"image {i}" for i in range(len(self.labels_))]
        for i, image in enumerate([] if X is None else X):
            if isinstance(image, str | Path):
                names[i] = readable(str(image))
        if self.conflicts_:
            labels = [readable(str(label)) for label in self.classes_[self.labels_]]
            log.warning("%s", describe_conflicts(self.conflicts_, names, labels))
        if self.copies_:
            log.warning("%s", describe_copies(self.copies_, names))

    def __getstate__(self) -> dict[str, Any]:
        """Everything but a backbone that can be opened again by its name, for pickle."""
        inherited = getattr(super(), "__getstate__", None)
        state = dict(inherited() if inherited else vars(self))
        if isinstance(state.get("fit_params_", {}).get("backbone"), str | Path):
            state["backbone_"] = None
        return state

    # ------------------------------------------------------------------------------------- features
    def _open_backbone(self) -> Backbone:
        """The backbone, opened with the parameters of the fit when it is first needed."""
        if self.backbone_ is None:
            params = self.fit_params_
            side = params["side"]
            if side is None and self._is_native():
                side = self.weights_.config.get("side")  # DINOv2: 224 instead of its own 518
            self.backbone_ = open_backbone(
                params["backbone"],
                side=side,
                device=params["device"],
                trust_code=params["trust_code"],
            )
        if self.backbone_.bind and self.reference_ is not None:
            self.backbone_ = self.backbone_.bind(self.reference_)
        return self.backbone_

    def _features(self, X: Images) -> NDArray[np.float32]:
        if self.fit_params_["backbone"] is None:
            return check_vectors(self, X, first=False)
        X = check_images(X)
        backbone = self._open_backbone()
        if backbone.bind:
            raise ClassifierError(
                f"The features of {backbone.name!r} depend on the images that are learned from, "
                "but this classifier was fitted to features; call fit with images."
            )
        features = compute_features(X, backbone)
        if not np.isfinite(features).all():
            raise InvalidInput(
                f"The backbone {backbone.name!r} computed features that are not finite numbers."
            )
        if is_fitted(self) and features.shape[1] != self.features_.shape[1]:
            raise InvalidInput(
                f"The backbone {backbone.name!r} computes {features.shape[1]} features, but the "
                f"classifier was fitted to {self.features_.shape[1]}."
            )
        return features

    def _probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        probabilities = np.zeros((len(features), len(self.classes_)))
        if len(self.seen_) == 1:
            probabilities[:, self.seen_] = 1
            return probabilities
        chunks = torch.from_numpy(features).split(CHUNK)
        adapted = self._under_prior()
        p = torch.cat([adapted(chunk).exp() for chunk in chunks])
        if not p.isfinite().all():
            raise self._unusable_weights()
        probabilities[:, self.seen_] = (p / p.sum(1, keepdim=True)).numpy()
        return probabilities

    def _class_shares(self, prior: ClassPrior) -> NDArray[np.float64]:
        """Shares of the classes that have images, by a class prior."""
        counts = np.bincount(self.labels_, minlength=len(self.classes_))[self.seen_]
        return class_shares(prior, self.classes_[self.seen_], counts)

    def _under_prior(self) -> AdaptedLearner:
        """The fitted heads and mixture under the class prior in force now."""
        if isinstance(self.class_prior, str) and self.class_prior == EVEN:
            return self.adapted_
        return self.adapted_.under_prior(torch.from_numpy(self._class_shares(self.class_prior)))

    def _unknown_scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Unknown scores [m] of features [m, d]."""
        confidence = self.weights_.confidence
        chunks = torch.from_numpy(features).split(CHUNK)
        scores = [confidence.unknown_score(self.adapted_, chunk) for chunk in chunks]
        return torch.cat(scores).double().numpy()

    def _check_two_classes(self) -> None:
        is_fitted(self, strict=True)
        if len(self.seen_) < 2:
            only = self.classes_[self.seen_[0]]
            raise ClassifierError(
                f"The classifier has images of one class only, '{readable(str(only))}'; "
                "give images of a second class first."
            )
