"""Formats that Pillow does not read alone: HEIC through pillow-heif, deep TIFF through tifffile.

Both packages are in the extra ``photos``. A deep TIFF has several channels of more than 8 bits, or
float16, float64 or 32-bit values. Pillow keeps the upper 8 bits of the former, which makes colours
of 12 bits black, and cannot open the latter.
"""

from __future__ import annotations

import io
import logging
import zlib
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MAX_PIXELS = 80_000_000  # below Pillow's own limit; an image of 20,000 x 20,000 would take 1.2 GB
# Formats that Pillow decodes without calling an external program, and HEIF by pillow-heif.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF")
INSTALL = "run: pip install 'anyshot[photos]'"
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
DAMAGED_TIFF = "a damaged TIFF, or a camera's raw file; save it as JPEG"
TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
UNCOMPRESSED, DEFLATE = 1, (8, 32946)
KEPT_BY_PILLOW = ("uint16", "int16", "int32", "float32")  # grey values

# Errors name the file and the reason; without a handler, tifffile's messages would be printed, too.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


class UnreadableImage(Exception):
    """The short reason why a file cannot be decoded."""


@cache
def available_formats() -> tuple[str, ...]:
    """The formats that files are read in: those of FORMATS that can be decoded here."""
    Image.init()
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        pass  # `explain_unidentified` names the extra when such a file comes
    else:
        register_heif_opener()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def open_image(source: Path | bytes) -> Image.Image:
    """Open a file, without decoding it if Pillow or pillow-heif read it."""
    start = _start(source)
    deep = _open_deep_tiff(source) if start[:4] in TIFF_STARTS else None
    if deep is not None:
        return deep
    try:
        return Image.open(_file(source), formats=available_formats())
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage(_explain_unidentified(start)) from error


def scale_to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Values [height, width] or [channels, height, width] of any range as uint8.

    Black is 0 and white the end of the smallest range that fits: 1 for floats, 8, 12 or 16 bits.
    If there are negative values (of scans, for example) or larger ones, the image's own range is
    used.

    >>> scale_to_bytes(np.array([[0, 2048, 4095]]))
    array([[  0, 127, 255]], dtype=uint8)
    """
    black, white = _find_range(values)
    out = np.empty(values.shape, np.uint8)
    for row in np.ndindex(values.shape[:-1]):  # row by row: little memory for a large image
        scaled = np.nan_to_num(values[row].astype(np.float32), posinf=0, neginf=0)
        out[row] = ((scaled - black) * (255 / (white - black))).clip(0, 255)
    return out


def _find_range(values: NDArray[Any]) -> tuple[float, float]:
    """The values of black and white."""
    finite = np.isfinite(values)
    darkest = float(values.min(initial=0, where=finite))
    brightest = float(values.max(initial=0, where=finite))
    if darkest < 0:
        return darkest, brightest
    ranges = (1, 255, 4095, 65535) if values.dtype.kind == "f" else (255, 4095, 65535)
    return 0, next((top for top in ranges if brightest <= top), brightest)


def _start(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:16]
    with open(source, "rb") as file:
        return file.read(16)


def _open_tiff(source: Path | bytes) -> Image.Image:
    return Image.open(_file(source), formats=("TIFF",))


def _file(source: Path | bytes) -> io.BytesIO | Path:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _explain_unidentified(start: bytes) -> str:
    """Why no format claims a file that starts with these bytes."""
    if start[:4] in TIFF_STARTS:
        if find_spec("tifffile") is None:
            return f"a TIFF that needs the package tifffile, or a damaged one; {INSTALL}"
        return DAMAGED_TIFF
    if not start:
        return "an empty file"
    if start[4:8] != b"ftyp":
        return "not an image"
    if start[8:12] not in HEIF_BRANDS:
        return "not an image, probably a video"
    return "a damaged HEIC photo" if "HEIF" in available_formats() else f"a HEIC photo; {INSTALL}"


def _open_deep_tiff(source: Path | bytes) -> Image.Image | None:
    """A TIFF with values that Pillow does not keep, as an 8-bit image; None if Pillow keeps them.

    Only pages without compression or with deflate are read, whose size can be checked before.
    """
    try:
        import tifffile
    except ImportError:
        _refuse_deep(source)
        return None
    with tifffile.TiffFile(_file(source)) as file:
        if not len(file.pages):
            raise UnreadableImage(DAMAGED_TIFF)
        page: Any = file.pages[0]
        kind, samples = page.dtype, page.samplesperpixel
        if kind is None or kind.itemsize == 1 or (samples == 1 and kind.name in KEPT_BY_PILLOW):
            return None
        if page.compression not in (UNCOMPRESSED, *DEFLATE):
            _refuse_dark(source, f"{kind.name} values with {page.compression.name}")
            return None
        what = f"{page.imagewidth}x{page.imagelength} with {samples} channels of {kind.name}"
        if page.nbytes > 3 * MAX_PIXELS:  # bytes of the largest 8-bit image
            raise UnreadableImage(f"too large ({what})")
        axes = page.axes.replace("S", "C")
        if axes not in ("YX", "YXC", "CYX") or samples > 4 or page.photometric not in (0, 1, 2):
            raise UnreadableImage(f"a TIFF that is neither grey nor RGB ({what}); convert it")
        _check_inflated_size(page, file.filehandle)
        values = page.asarray(maxworkers=1)
    values = values[None] if axes == "YX" else np.moveaxis(values, axes.index("C"), 0)
    colours = 1 if samples < 3 else 3
    parts = [values[:colours], values[colours:]]  # the second is transparency
    channels = np.concatenate([scale_to_bytes(part) for part in parts if len(part)])
    if page.photometric == 0:  # white is zero
        channels[:1] = 255 - channels[:1]
    if samples == 1:
        return Image.fromarray(channels[0])
    return Image.merge({2: "LA", 3: "RGB", 4: "RGBA"}[samples], [*map(Image.fromarray, channels)])


def _refuse_deep(source: Path | bytes) -> None:
    """Without tifffile: refuse colours of more than 8 bits, which may be dark."""
    with suppress(Image.UnidentifiedImageError), _open_tiff(source) as image:
        bits: Any = image.tag_v2.get(258, (8,))  # type: ignore[attr-defined]
        if len(bits) > 1 and max(bits) > 8:
            raise UnreadableImage(f"a TIFF of {max(bits)}-bit colours; {INSTALL}")


def _refuse_dark(source: Path | bytes, what: str) -> None:
    """Refuse a compressed deep TIFF whose upper 8 bits, which Pillow keeps, are not its colours."""
    reason = f"a TIFF of {what} compression; save it without compression"
    try:
        with _open_tiff(source) as image:
            if image.width * image.height > MAX_PIXELS:
                return  # refused later
            brightest = int(np.asarray(image.convert("RGB")).max())
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage(reason) from error
    if brightest < 16:  # 12 bits or fewer
        raise UnreadableImage(reason)


def _check_inflated_size(page: Any, file: Any) -> None:
    """Refuse deflated parts that are larger than the image when they are inflated."""
    if page.compression == UNCOMPRESSED:
        return
    for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
        file.seek(offset)
        if len(zlib.decompressobj().decompress(file.read(count), page.nbytes + 1)) > page.nbytes:
            raise UnreadableImage("too large (a decompression bomb)")
