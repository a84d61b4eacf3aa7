"""Augmentation of uint8 images: flips, shifts, crops and colour changes.

`ImageSet.kind` decides which ones keep the class of an image: a mirrored bird is a bird, a
mirrored letter is not that letter. "auto" stands for the shifts and flips that the set allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion
from anyshot.core.settings import AUGMENTATIONS
from anyshot.data import ImageSet

SHIFT = 0.1  #: largest shift, as a share of the side: 3 pixels of 32
CROP = 0.7  #: smallest side of a crop, as a share of the side
COLOUR = 0.3  #: brightness, contrast and saturation vary by up to this factor
GREY = np.array([0.299, 0.587, 0.114], np.float32)  # luma of red, green and blue

Images = NDArray[np.uint8]
Coordinates = NDArray[np.floating]


def resolve_augmentations(names: Sequence[str], imageset: ImageSet) -> tuple[str, ...]:
    """Replace "auto" by shifts, and by flips if the set allows them.

    >>> pixels = np.zeros((2, 32, 32, 3), np.uint8)
    >>> resolve_augmentations(("auto",), ImageSet.from_arrays("birds", {"owl": pixels}, {}))
    ('flip', 'shift')
    >>> letters = ImageSet.from_arrays("letters", {"R": pixels}, {}, kind="characters")
    >>> resolve_augmentations(("auto", "colour"), letters)
    ('shift', 'colour')
    """
    auto = ("flip", "shift") if imageset.flip_invariant else ("shift",)
    resolved = [one for name in names for one in (auto if name == "auto" else (name,))]
    return tuple(dict.fromkeys(resolved))  # each one once


def check_augmentations(names: Sequence[str]) -> None:
    """Refuse names that are no augmentation, which would change nothing."""
    for name in (names,) if isinstance(names, str) else names:
        if name not in AUGMENTATIONS:
            raise SettingsError(
                f"There is no augmentation {name!r}{suggestion(str(name), AUGMENTATIONS)}"
            )
    if isinstance(names, str):
        raise SettingsError(f"The augmentations are {names!r}; give a sequence, [{names!r}].")


def augment(images: Images, names: Sequence[str], rng: np.random.Generator) -> Images:
    """Augment images uint8 [n, height, width, 3], each one differently.

    Shifts, crops and flips are one gather of the nearest pixels; edges are repeated.
    """
    n, height, width, _ = images.shape
    rows = np.arange(height)[None] + 0.5  # source row of each target row, [n or 1, height]
    columns = np.arange(width)[None] + 0.5
    if "crop" in names:
        side = rng.uniform(CROP, 1, (n, 1))
        top = rng.random((n, 1))
        left = rng.random((n, 1))
        rows = side * rows + top * (1 - side) * height
        columns = side * columns + left * (1 - side) * width
    if "shift" in names:
        rows = rows + _random_offsets(rng, n, height)
        columns = columns + _random_offsets(rng, n, width)
    if "flip" in names:
        columns = np.where(rng.random((n, 1)) < 0.5, columns, width - columns)
    if set(names) & {"crop", "shift", "flip"}:
        images = _gather_pixels(images, rows, columns)
    return jitter_colours(images, rng) if "colour" in names else images


def _random_offsets(rng: np.random.Generator, n: int, side: int) -> NDArray[np.int64]:
    most = max(1, round(SHIFT * side))
    return rng.integers(-most, most, (n, 1), endpoint=True)


def _gather_pixels(images: Images, rows: Coordinates, columns: Coordinates) -> Images:
    """Take pixel (i, j) of each image from (rows[i], columns[j])."""
    n, height, width, _ = images.shape
    r = np.clip(rows.astype(np.int64), 0, height - 1) + height * np.arange(n)[:, None]
    c = np.clip(columns.astype(np.int64), 0, width - 1)
    return np.take(images.reshape(-1, 3), r[:, :, None] * width + c[:, None], axis=0)


def jitter_colours(images: Images, rng: np.random.Generator) -> Images:
    """Multiply brightness, contrast and saturation of each image by random factors."""
    brightness, contrast, saturation = rng.uniform(
        1 - COLOUR, 1 + COLOUR, (3, len(images), 1, 1)
    ).astype(np.float32)
    pixels = images.reshape(len(images), -1, 3).astype(np.float32)
    grey = (pixels @ GREY)[:, :, None]
    pixels = grey + saturation * (pixels - grey)
    middle = grey.mean(1, keepdims=True)
    pixels = brightness * (middle + contrast * (pixels - middle))
    return pixels.clip(0, 255).round().astype(np.uint8).reshape(images.shape)
