"""Read uploads: a file becomes a thumbnail and the classifier's input."""

from __future__ import annotations

import ctypes
import io
import secrets
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import open_backbone
from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.weights import open_weights
from anyshot.data.decode import decode_upright, resize_and_crop
from anyshot.data.image_formats import UnreadableImage, available_formats

FORMATS = "Supported formats: JPEG, PNG, HEIC, WebP, AVIF, GIF, BMP and TIFF."
# Times the limit of pixels. Peak memory for 49 megapixels: PNG and WebP 750 MB, HEIC 350, JPEG 160.
FRUGAL = {"JPEG": 3, "HEIF": 2}
LARGE = 2_000_000  # pixels of an image after which memory is given back, which takes time
THUMBNAIL_SIDE = 320  # pixels; the square that the backbone sees


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo of a visitor."""

    id: str
    name: str
    thumbnail: bytes  #: JPEG
    content: NDArray[Any]  #: features [d], or pixels [side, side, 3] if features depend on the task
    file: bytes = b""  #: the upload, if it is kept

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return len(self.thumbnail) + self.content.nbytes + len(self.file)


class UploadReader:
    """Reads uploads through a frozen backbone, and fits classifiers to what it read.

    All uploads are read by one thread, because two large images at once would need twice the
    memory.
    """

    def __init__(
        self,
        backbone: Source,
        *,
        weights: str | Path = "photos-lite0",
        side: int | None = None,
        device: str = "cpu",
        trust_code: bool = False,
    ) -> None:
        config = open_weights(weights).config  # an unknown name is an error now
        if side is None and backbone == config["backbone"]:
            side = config.get("side")  # as the classifier chooses it
        self.backbone = open_backbone(backbone, side=side, device=device, trust_code=trust_code)
        self.options: dict[str, Any] = {
            "backbone": backbone,
            "weights": weights,
            "side": side,
            "device": device,
            "trust_code": trust_code,
        }
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="uploads")

    @property
    def keeps_features(self) -> bool:
        """Whether features are computed once a photo; those of a run's body depend on the task."""
        return self.backbone.bind is None

    def read(self, name: str, data: bytes, limits: Limits) -> Photo:
        """Read an uploaded file; an error names the file and the reason. The file is not kept."""
        return self.thread.submit(self._read, name, data, limits).result()

    def _read(self, name: str, data: bytes, limits: Limits) -> Photo:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd files; errors are raised
            is_large = True
            try:
                is_large = _check_pixels(data, limits) > LARGE
                upright = decode_upright(data, self.backbone.side)
                pixels = resize_and_crop(upright, self.backbone.side)
                shown = resize_and_crop(upright, THUMBNAIL_SIDE)
                del upright
            except UnreadableImage as error:
                known = "" if str(error) != "not an image" else f" {FORMATS}"
                raise RequestRefused(f"{name} cannot be used: {error}.{known}") from None
            finally:
                if is_large:
                    _return_freed_memory()
        content = self._features(pixels) if self.keeps_features else pixels
        file = io.BytesIO()
        Image.fromarray(shown).save(file, "JPEG", quality=85)
        return Photo(secrets.token_urlsafe(12), name, file.getvalue(), content)

    def _features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        features = self.backbone(np.stack([pixels]))[0]
        if not np.isfinite(features).all():
            raise RequestRefused(
                f"The backbone {self.backbone.name!r} computed features that are not finite."
            )
        return features

    def fit(self, photos: Sequence[Photo], labels: ArrayLike) -> AnyShotClassifier:
        """Fit a new classifier to photos."""
        classifier = AnyShotClassifier(**self.options)
        fit = classifier.fit_features if self.keeps_features else classifier.fit
        return fit(_stack(photos), labels)

    def features(
        self, classifier: AnyShotClassifier, photos: Sequence[Photo]
    ) -> NDArray[np.float32]:
        """The features of photos for a fitted classifier, [n, d]."""
        return _stack(photos) if self.keeps_features else classifier.transform(_stack(photos))


def _check_pixels(data: bytes, limits: Limits) -> float:
    """Refuse an image that would take too much memory when it is decoded; return its pixels."""
    try:
        with Image.open(io.BytesIO(data), formats=available_formats()) as image:
            width, height = image.size
            most = limits.megapixels * FRUGAL.get(image.format or "", 1)
    except Exception:  # `decode_upright` finds the reason
        return float("inf")
    if width * height > 1_000_000 * most:
        raise UnreadableImage(f"too large ({width}x{height}; the most is {most} megapixels)")
    return width * height


def _return_freed_memory() -> None:
    """Give memory back to the system, which glibc otherwise keeps; a large image takes 400 MB."""
    with suppress(OSError, AttributeError):  # other systems have no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def _stack(photos: Sequence[Photo]) -> NDArray[Any]:
    return np.stack([photo.content for photo in photos])
