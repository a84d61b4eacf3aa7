"""An upload becomes a photo: a thumbnail to show, and what the classifier takes. The upload itself is not kept."""

from __future__ import annotations

import io
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import open_backbone
from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.web.limits import Refused
from anyshot.classifier.weights import open_weights
from anyshot.data.decode import UnreadableImage, decode

SIDE = 320  # of a thumbnail, square: the part that the backbone sees


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture of a visitor."""

    id: str
    name: str
    thumbnail: bytes  # JPEG
    content: NDArray[
        Any
    ]  # what the classifier takes: features, or pixels where features depend on the task


class FeatureClassifier(AnyShotClassifier):
    """A classifier that is given features of its backbone, made once a picture, in the place of pictures."""

    def fit(self, X: Any, y: Any) -> AnyShotClassifier:
        """Learn from features."""
        return self.fit_features(X, y)

    def _features(self, X: Any) -> NDArray[np.float32]:
        return X


class UploadReader:
    """Reads uploads through a frozen backbone, one at a time, and makes classifiers for what comes out."""

    def __init__(
        self,
        backbone: Source,
        *,
        weights: str | Path = "photos-lite0",
        side: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.backbone = open_backbone(backbone, side=side, device=device)
        # where features change with the images learned from, they are made anew at each fit
        self.kind = FeatureClassifier if self.backbone.bind is None else AnyShotClassifier
        self.given: dict[str, Any] = {
            "backbone": backbone,
            "weights": weights,
            "side": side,
            "device": device,
        }
        self.lock = threading.Lock()
        open_weights(weights)  # an unknown name is said now, not at the first picture

    def classifier(self) -> AnyShotClassifier:
        """A new one, that takes the content of photos."""
        return self.kind(**self.given)

    def read(self, name: str, data: bytes) -> Photo:
        """A photo of an uploaded file; a sentence if it is no picture."""
        try:
            shown, pixels = decode(data, SIDE), decode(data, self.backbone.side)
        except UnreadableImage as error:
            raise Refused(
                f"{name} cannot be used: {error}. Pictures may be JPEG, PNG, WebP, GIF, BMP or TIFF."
            ) from None
        content = self._features(pixels) if self.kind is FeatureClassifier else pixels
        file = io.BytesIO()
        Image.fromarray(shown).save(file, "JPEG", quality=85)
        return Photo(secrets.token_urlsafe(12), name, file.getvalue(), content)

    def _features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with self.lock:  # one at a time: the cores are busy with one
            features = self.backbone(np.stack([pixels]))[0]
        if not np.isfinite(features).all():
            raise Refused(
                f"The backbone {self.backbone.name!r} made features that are not finite numbers."
            )
        return features
