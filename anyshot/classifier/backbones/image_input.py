"""Accepted image inputs, and how an image becomes square pixels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from anyshot.core.errors import ClassifierError
from anyshot.data.decode import MIN_SIDE, decode, resize_and_crop, to_rgb
from anyshot.data.image_formats import UnreadableImage

ImageLike = NDArray | Image.Image | str | os.PathLike[str]


def to_pixels(image: ImageLike, side: int) -> NDArray[np.uint8]:
    """uint8 [side, side, 3]: upright, in RGB, the short side resized to `side`, centre-cropped.

    >>> to_pixels(np.zeros((4, 6), np.uint8), 8).shape
    (8, 8, 3)
    """
    if isinstance(image, str | os.PathLike):
        try:
            return decode(Path(image), side)
        except UnreadableImage as error:
            raise ClassifierError(
                f"'{os.fspath(image)}' cannot be used as an image: {error}. Leave it out."
            ) from error
    return resize_and_crop(_to_image(image), side)


def cache_content(image: ImageLike) -> bytes:
    """The bytes that identify an image in the feature cache: its file, or its RGB pixels."""
    if isinstance(image, str | os.PathLike):
        try:
            return b"file" + Path(image).read_bytes()
        except OSError as error:
            raise ClassifierError(
                f"Cannot read '{os.fspath(image)}': {error.strerror or error}."
            ) from error
    rgb = _to_image(image)
    return f"rgb {rgb.width}x{rgb.height} ".encode() + rgb.tobytes()


def _to_image(image: NDArray | Image.Image) -> Image.Image:
    """An upright RGB image of an array or a PIL image of any mode."""
    if not isinstance(image, Image.Image):
        return to_rgb(Image.fromarray(_check_array(np.asarray(image))))
    _check_size(image.width, image.height)
    try:
        return to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders of damaged files raise almost anything
        raise ClassifierError(f"A PIL image cannot be read: {error}. Leave it out.") from error


def _check_array(array: NDArray) -> NDArray[np.uint8]:
    """A uint8 array [height, width] or [height, width, 3]; other types are not converted."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    grey_or_rgb = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype != np.uint8 or not grey_or_rgb:
        raise ClassifierError(
            f"An image is an array of {array.dtype} {list(array.shape)}; expected uint8 "
            "[height, width, 3] or [height, width] with values 0 to 255."
        )
    _check_size(array.shape[1], array.shape[0])
    return array


def _check_size(width: int, height: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise ClassifierError(
            f"An image is too small ({width}x{height}); expected at least "
            f"{MIN_SIDE}x{MIN_SIDE} pixels."
        )
