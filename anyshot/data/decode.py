"""Decode image files of any format, size and mode to square uint8 arrays. Files are not trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from anyshot.core.errors import SettingsError
from anyshot.data.image_formats import MAX_PIXELS, UnreadableImage, open_image, scale_to_bytes

MIN_SIDE = 4  # of an image file
MAX_SIDE = 1024  # of a decoded image; `decode_all` holds up to 256 of them in memory
BATCH = 256
THREADS = 2

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels of the file


def decode(source: Path | bytes, side: int, *, box: Box | None = None, crop: bool = True) -> Pixels:
    """Decode an image file to uint8 [side, side, 3], upright and in RGB.

    `box` cuts a rectangle out of the image first. With `crop` the shorter side is resized to `side`
    and the centre is cut out; without it, the whole image is resized, which changes its aspect
    ratio.
    """
    upright = decode_upright(source, side, box=box)
    return resize_and_crop(upright, side) if crop else _resize(upright, side)


def decode_upright(source: Path | bytes, side: int, *, box: Box | None = None) -> Image.Image:
    """Decode an image file to an upright RGB image, for squares of up to `side` pixels.

    A large JPEG is read at a fraction of its size, with shorter sides of at least 4 x `side`.
    """
    check_side(side)
    try:
        with open_image(source) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                most = f"the most is {MAX_PIXELS // 1_000_000} megapixels"
                raise UnreadableImage(f"too large ({width}x{height}; {most})")
            if min(width, height) < MIN_SIDE:
                raise UnreadableImage(f"too small ({width}x{height})")
            if box is None and image.format != "HEIF":  # whose thumbnail may be another image
                image.draft(None, (4 * side, 4 * side))  # reads a JPEG at a fraction of its size
            region = image if box is None else _cut_out(image, box)
            ImageOps.exif_transpose(region, in_place=True)  # without a copy of a large image
            return to_rgb(region)  # loaded, so that the file can be closed
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage("too large (a decompression bomb)") from error
    except UnreadableImage:
        raise
    except Exception as error:  # decoders of damaged files raise almost anything
        raise UnreadableImage(f"damaged: {str(error).strip() or type(error).__name__}") from error


def decode_all(
    sources: Iterable[Path | bytes],
    side: int,
    *,
    boxes: Mapping[Path, Box] | None = None,
    crop: bool = True,
) -> Iterator[Pixels | str]:
    """Decode many files on two threads; yield, in order, the pixels or the reason for failure.

    `boxes` maps files to the rectangles that are cut out of them.
    """

    def decode_one(source: Path | bytes) -> Pixels | str:
        box = boxes[source] if boxes is not None and isinstance(source, Path) else None
        try:
            return decode(source, side, box=box, crop=crop)
        except UnreadableImage as error:
            return str(error)

    remaining = iter(sources)
    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as pool:
        warnings.simplefilter("ignore")  # Pillow warns about odd metadata; real problems raise
        while batch := list(islice(remaining, BATCH)):
            yield from pool.map(decode_one, batch)


def check_side(side: int) -> None:
    """Refuse image sides that make no sense or would fill the memory."""
    if not 1 <= side <= MAX_SIDE:
        raise SettingsError(f"The image side is {side} pixels; it must be from 1 to {MAX_SIDE}.")


def resize_and_crop(image: Image.Image, side: int) -> Pixels:
    """Resize the shorter side to `side` (Lanczos) and cut out the centre: uint8 [side, side, 3]."""
    return np.asarray(ImageOps.fit(to_rgb(image), (side, side), Image.Resampling.LANCZOS))


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert any mode to 8-bit RGB; transparent parts become white, other greys are scaled."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(scale_to_bytes(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        foreground = image if image.mode == "RGBA" else image.convert("RGBA")
        white = Image.new("RGBA", foreground.size, "white")
        return Image.alpha_composite(white, foreground).convert("RGB")
    image.load()  # a damaged file is an error here
    return image if image.mode == "RGB" else image.convert("RGB")


def _cut_out(image: Image.Image, box: Box) -> Image.Image:
    left, top, right, bottom = box
    width, height = image.size
    clipped = (max(0, left), max(0, top), min(width, right), min(height, bottom))
    if clipped[2] <= clipped[0] or clipped[3] <= clipped[1]:
        raise UnreadableImage(f"the box {box} is outside the image ({width}x{height})")
    return image.crop(clipped)


def _resize(image: Image.Image, side: int) -> Pixels:
    return np.asarray(image.resize((side, side), Image.Resampling.LANCZOS))
