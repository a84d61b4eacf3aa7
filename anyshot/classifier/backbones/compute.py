"""Computes features, and reads those that are known already from the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from anyshot.classifier.backbones.backbone import Backbone, Features
from anyshot.classifier.backbones.feature_cache import FeatureCache
from anyshot.classifier.backbones.image_input import ImageLike, cache_content, to_pixels
from anyshot.core.errors import ClassifierError
from anyshot.core.progress import progress

BATCH = 32  # images computed, and written to the cache, at once
PROGRESS_FROM = 200  # images: fewer need no progress bar
MEMORY_IMAGES = 10_000  # number of images whose features are kept in memory


def compute_features(images: Sequence[ImageLike], backbone: Backbone) -> Features:
    """Features float32 [n, width] of images (arrays, PIL images, paths).

    Equal images are computed once. A batch is written to the cache when it is computed, so that
    an interrupted computation continues where it stopped.
    """
    if not len(images):
        raise ClassifierError("There are no images to compute features of; give at least one.")
    keys = [hashlib.sha256(cache_content(image)).digest() for image in images]
    cache = FeatureCache(backbone.fingerprint) if backbone.fingerprint else None
    known = _read(keys, backbone, cache)
    _compute_missing(images, keys, backbone, cache, known)
    if len({len(known[key]) for key in keys}) > 1:  # entries of the cache that somebody changed
        known.clear()
        _compute_missing(images, keys, backbone, cache, known)
    return np.stack([known[key] for key in keys])


def _compute_missing(
    images: Sequence[ImageLike],
    keys: Sequence[bytes],
    backbone: Backbone,
    cache: FeatureCache | None,
    known: dict[bytes, Features],
) -> None:
    """Add the features that are not known yet, by key."""
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    missing = sorted(i for key, i in first.items() if key not in known)
    with _progress(backbone, len(missing)) as advance:
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            rows = backbone(np.stack([to_pixels(images[i], backbone.side) for i in batch]))
            new = {keys[i]: row for i, row in zip(batch, rows, strict=True)}
            if cache:
                cache.write(new)
            if backbone.memory is not None and len(backbone.memory) < MEMORY_IMAGES:
                backbone.memory.update(new)
            known.update(new)
            advance(len(batch))


def _read(
    keys: Sequence[bytes], backbone: Backbone, cache: FeatureCache | None
) -> dict[bytes, Features]:
    """Known features, by key, from memory and from the cache."""
    memory = backbone.memory or {}
    known = {key: memory[key] for key in keys if key in memory}
    if cache:
        known.update(cache.read([key for key in keys if key not in known]))
    return known


@contextmanager
def _progress(backbone: Backbone, total: int) -> Iterator[Callable[[int], None]]:
    if total < PROGRESS_FROM:
        yield lambda n: None
        return
    with progress(f"Features by {backbone.name}", total) as advance:
        yield advance
