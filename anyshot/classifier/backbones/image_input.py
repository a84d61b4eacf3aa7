"""What counts as a picture, and how one becomes square pixels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from anyshot.core.errors import AnyshotError
from anyshot.data.decode import UnreadableImage, decode, resize_and_crop

Picture = NDArray | Image.Image | str | os.PathLike[str]


def to_pixels(picture: Picture, side: int) -> NDArray[np.uint8]:
    """uint8 [side, side, 3]: short side resized, centre cut out, in colour.

    >>> as_pixels(np.zeros((4, 6), np.uint8), 8).shape
    (8, 8, 3)
    """
    if isinstance(picture, str | os.PathLike):
        try:
            return decode(Path(picture), side)
        except UnreadableImage as error:
            raise AnyshotError(
                f"'{os.fspath(picture)}' cannot be used as a picture: {error}. Leave it out."
            ) from error
    if isinstance(picture, Image.Image):
        return resize_and_crop(picture, side)
    return resize_and_crop(Image.fromarray(check_array(np.asarray(picture))), side)


def cache_content(picture: Picture) -> bytes:
    """What a picture is made of, for the cache's key."""
    if isinstance(picture, str | os.PathLike):
        try:
            return b"file" + Path(picture).read_bytes()
        except OSError as error:
            raise AnyshotError(
                f"Cannot read '{os.fspath(picture)}': {error.strerror or error}."
            ) from error
    array = (
        np.asarray(picture)
        if isinstance(picture, Image.Image)
        else check_array(np.asarray(picture))
    )
    mode = picture.mode if isinstance(picture, Image.Image) else ""
    return f"pixels {mode} {array.shape} ".encode() + array.tobytes()


def check_array(array: NDArray) -> NDArray[np.uint8]:
    """A uint8 array [height, width] or [height, width, 3]; one channel too many or floats are said, not guessed."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if (
        array.dtype != np.uint8
        or array.ndim not in (2, 3)
        or (array.ndim == 3 and array.shape[2] != 3)
    ):
        raise AnyshotError(
            f"A picture is {array.dtype} {list(array.shape)}; expected uint8 [height, width, 3] or [height, width] "
            "with values 0 to 255."
        )
    return array
