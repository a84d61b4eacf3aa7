"""Other views of an image that are still of its class: flipped, moved, cropped, in other colours; all on uint8.

What a class allows depends on what the set holds (``ImageSet.kind``): the mirror image of a bird is a bird, that of a
letter is not that letter. ``auto`` asks the set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anyshot.data import ImageSet

SHIFT = 0.1  #: of a side, each way: 3 pixels of 32
CROP = 0.7  #: least side of a crop
COLOUR = 0.3  #: brightness, contrast and saturation vary by up to this factor
GREY = np.array([0.299, 0.587, 0.114], np.float32)  # luma of red, green and blue

Images = NDArray[np.uint8]
Places = NDArray[np.floating]


def resolve_augmentations(wanted: Sequence[str], imageset: ImageSet) -> tuple[str, ...]:
    """What is done to the images of a set: "auto" stands for shifts, and flips where they leave classes what they are.

    >>> pixels = np.zeros((2, 32, 32, 3), np.uint8)
    >>> resolve_augmentations(("auto",), ImageSet.from_arrays("birds", {"owl": pixels}, {}))
    ('flip', 'shift')
    >>> resolve_augmentations(("auto", "colour"), ImageSet.from_arrays("letters", {"R": pixels}, {}, kind="characters"))
    ('shift', 'colour')
    """
    auto = ("flip", "shift") if imageset.flip_invariant else ("shift",)
    return tuple(
        dict.fromkeys(name for word in wanted for name in (auto if word == "auto" else (word,)))
    )


def augment(images: Images, how: Sequence[str], rng: np.random.Generator) -> Images:
    """The images [n, height, width, 3], each changed in its own way; moving, cropping and flipping are one gather.

    Beyond the edge the edge is repeated; a crop takes the nearest pixel.
    """
    n, height, width, _ = images.shape
    rows, columns = (
        np.arange(height)[None] + 0.5,
        np.arange(width)[None] + 0.5,
    )  # where each pixel is fetched from
    if "crop" in how:
        side, down, right = rng.uniform(CROP, 1, (n, 1)), rng.random((n, 1)), rng.random((n, 1))
        rows, columns = (
            side * rows + down * (1 - side) * height,
            side * columns + right * (1 - side) * width,
        )
    if "shift" in how:
        rows = rows + _random_offsets(rng, n, height)
        columns = columns + _random_offsets(rng, n, width)
    if "flip" in how:
        columns = np.where(rng.random((n, 1)) < 0.5, columns, width - columns)
    if set(how) & {"crop", "shift", "flip"}:
        images = _gather_pixels(images, rows, columns)
    return jitter_colours(images, rng) if "colour" in how else images


def _random_offsets(rng: np.random.Generator, n: int, side: int) -> NDArray[np.int64]:
    most = max(1, round(SHIFT * side))
    return rng.integers(-most, most, (n, 1), endpoint=True)


def _gather_pixels(images: Images, rows: Places, columns: Places) -> Images:
    """Pixel (i, j) of each image is that at (rows[i], columns[j])."""
    n, height, width, _ = images.shape
    r = np.clip(rows.astype(np.int64), 0, height - 1) + height * np.arange(n)[:, None]
    c = np.clip(columns.astype(np.int64), 0, width - 1)
    return np.take(images.reshape(-1, 3), r[:, :, None] * width + c[:, None], axis=0)


def jitter_colours(images: Images, rng: np.random.Generator) -> Images:
    """Brightness, contrast (about the image's mean grey) and saturation of each image times a factor of its own."""
    brightness, contrast, saturation = rng.uniform(
        1 - COLOUR, 1 + COLOUR, (3, len(images), 1, 1)
    ).astype(np.float32)
    pixels = images.reshape(len(images), -1, 3).astype(np.float32)
    grey = (pixels @ GREY)[:, :, None]
    pixels = grey + saturation * (pixels - grey)
    middle = grey.mean(1, keepdims=True)
    pixels = brightness * (middle + contrast * (pixels - middle))
    return pixels.clip(0, 255).round().astype(np.uint8).reshape(images.shape)


def quarter_turns(images: Images, turns: NDArray[np.int64]) -> Images:
    """Square images, each turned counter-clockwise by so many right angles.

    >>> image = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1).repeat(3, 3)
    >>> quarter_turns(image, np.array([1]))[0, :, :, 0]
    array([[1, 3],
           [0, 2]], dtype=uint8)
    """
    turned = images.copy()
    for k in (1, 2, 3):
        turned[turns == k] = np.rot90(images[turns == k], k, (1, 2))
    return turned
