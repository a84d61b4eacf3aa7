"""Shapes of characters: the font faces that contain one, and its signed-distance field.

A signed-distance field gives the distance of each point to the outline, positive inside the ink.
Drawing it at any scale, angle or stroke weight is one interpolation and one clip, so that 100,000
images take seconds.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from anyshot.data.fonts import fonts_folder

EDGE = 64  # side of a field
BOX = 44  # the longer side of the ink inside it
RENDER = 2 * EDGE  # side of the drawing it is measured on

# Font faces of matplotlib. Computer Modern encodes only letters and digits like ASCII.
UNICODE_FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
)
ASCII_FACES = ("cmr10", "cmb10", "cmss10", "cmtt10", "cmti10")


def faces_with(character: str) -> list[str]:
    """Return the names of the faces that contain a character, in a fixed order."""
    faces = [face for face in UNICODE_FACES if ord(character) in _charmap(face)]
    if character.isascii() and character.isalnum():
        faces.extend(ASCII_FACES)
    return faces


def distance_field(character: str, face: str) -> NDArray[np.float32]:
    """Return the signed distance to the outline in field pixels, float32 [EDGE, EDGE].

    The ink is centred and its longer side has BOX pixels, so that size and position carry no
    information.
    """
    from scipy.ndimage import distance_transform_edt  # slow to import

    ink = silhouette(character, face) >= 128
    distance = distance_transform_edt(ink) - distance_transform_edt(~ink)
    halves = distance.reshape(EDGE, 2, EDGE, 2).mean(axis=(1, 3)) / 2
    return halves.astype(np.float32)


def silhouette(character: str, face: str) -> NDArray[np.uint8]:
    """Render the character white on black, centred: uint8 [RENDER, RENDER]."""
    font = _font(face)
    left, top, right, bottom = font.getbbox(character)
    picture = Image.new("L", (max(1, int(right - left)), max(1, int(bottom - top))))
    ImageDraw.Draw(picture).text((-left, -top), character, fill=255, font=font)
    box = picture.getbbox()
    canvas = Image.new("L", (RENDER, RENDER))
    if box is None:
        return np.asarray(canvas)
    picture = picture.crop(box)
    ratio = 2 * BOX / max(picture.size)
    width, height = (max(1, round(side * ratio)) for side in picture.size)
    canvas.paste(
        picture.resize((width, height), Image.Resampling.BILINEAR),
        ((RENDER - width) // 2, (RENDER - height) // 2),
    )
    return np.asarray(canvas)


def class_name(character: str) -> str:
    """Return a class name that sorts by script: "0416 CYRILLIC CAPITAL LETTER ZHE"."""
    return f"{ord(character):04X} {unicodedata.name(character)}"


@cache
def _charmap(face: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(str(fonts_folder() / f"{face}.ttf")).get_charmap())


@cache
def _font(face: str) -> ImageFont.FreeTypeFont:
    # The basic layout engine draws the same whether or not Raqm is installed.
    return ImageFont.truetype(
        str(fonts_folder() / f"{face}.ttf"), RENDER, layout_engine=ImageFont.Layout.BASIC
    )
