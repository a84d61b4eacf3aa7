"""Any picture file becomes a square uint8 array, or a short reason why not. Files are not trusted."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

MAX_PIXELS = 80_000_000  # below Pillow's own alarm; a 20,000 x 20,000 picture would fill 1.2 GB
MIN_SIDE = 4
FORMATS = (
    "PNG",
    "JPEG",
    "WEBP",
    "GIF",
    "BMP",
    "TIFF",
    "PPM",
    "JPEG2000",
    "AVIF",
)  # none that runs a program

Pixels = NDArray[np.uint8]


class UnreadableImage(Exception):
    """Why a file gives no picture, in a few words."""


def decode(source: Path | bytes, side: int, bottom: int = 0) -> Pixels:
    """Read a picture as uint8 [side, side, 3]: upright, in colour, the short side resized to `side`, centre-cropped.

    `bottom` rows (of the file's own resolution) are cut off first.
    """
    try:
        with Image.open(
            io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()
        ) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise UnreadableImage(f"too large ({width}x{height})")
            if min(width, height) < MIN_SIDE:
                raise UnreadableImage(f"too small ({width}x{height})")
            image.draft(None, (4 * side, 4 * side))  # a JPEG may be read at a fraction of its size
            cut = round(bottom * image.height / height)
            whole = image.crop((0, 0, image.width, image.height - cut)) if cut else image
            return resize_and_crop(ImageOps.exif_transpose(whole), side)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage("too large (a decompression bomb)") from error
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage("not an image") from error
    except UnreadableImage:
        raise
    except Exception as error:  # decoders of broken files raise almost anything
        raise UnreadableImage(f"damaged ({str(error) or type(error).__name__})") from error


def resize_and_crop(image: Image.Image, side: int) -> Pixels:
    """Resize the short side to `side` (Lanczos) and cut out the centre, in 8-bit RGB."""
    return np.asarray(ImageOps.fit(to_rgb(image), (side, side), Image.Resampling.LANCZOS))


def to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB of any mode; transparent parts become white, integer and float greys are scaled."""
    if image.mode.startswith("I") or image.mode == "F":
        grey = np.nan_to_num(np.asarray(image, np.float32), posinf=0, neginf=0)
        scaled = np.clip(grey * (255 / _white_level(grey, image.mode)), 0, 255)
        return Image.fromarray(scaled.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(white, clear).convert("RGB")
    return image.convert("RGB")


def _white_level(grey: NDArray[np.float32], mode: str) -> float:
    """The value of white: the smallest common range (0–1 for floats, 8, 12, 16 bits) that fits."""
    brightest = float(grey.max(initial=0))
    ranges = (1, 255, 4095, 65535) if mode == "F" else (255, 4095, 65535)
    return next((top for top in ranges if brightest <= top), brightest)


def decode_all(
    sources: Iterable[Path | bytes], side: int, *, bottom: int = 0, workers: int = 2
) -> Iterator[Pixels | str]:
    """Decode many files on a few threads; yield, in order, the pixels or the reason why there are none."""

    def one(source: Path | bytes) -> Pixels | str:
        try:
            return decode(source, side, bottom)
        except UnreadableImage as error:
            return str(error)

    remaining = iter(sources)
    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore")  # Pillow's remarks about odd metadata; what matters raises
        while batch := list(islice(remaining, 256)):  # keeps few pictures in memory at a time
            yield from pool.map(one, batch)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)
