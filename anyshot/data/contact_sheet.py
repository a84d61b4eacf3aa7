"""Contact sheets: the classes of an image set, and a task, as one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from anyshot.core.text import readable
from anyshot.data.fonts import fonts_folder
from anyshot.data.image_set import ImageSet

Pixels = NDArray[np.uint8]

LABEL = 290  # width of the column of names
LINE = 26  # height of a heading
GAP = 6
INK, FAINT, PAPER = (30, 30, 30), (110, 110, 110), (255, 255, 255)


def class_sheet(images: ImageSet, classes: int = 8, columns: int = 20) -> Image.Image:
    """Draw some classes of each split, one row per class."""
    parts = [
        _heading(
            f"{images.name}: {len(images)} images, {images.size[0]} x {images.size[1]}",
            columns,
            images,
        )
    ]
    for split, members in images.splits.items():
        spread = np.unique(
            np.linspace(0, len(members) - 1, min(classes, len(members))).round().astype(int)
        )
        parts.append(_heading(f"{split}: {len(spread)} of {len(members)} classes", columns, images))
        for c in (members[m] for m in spread):
            chosen = images.images_of(c)[:columns]
            parts.append(_row(images.classes[c], f"{images.counts[c]} images", chosen, columns))
    return _stack(parts)


def task_sheet(
    title: str,
    names: Sequence[str],
    support: Pixels,
    support_labels: NDArray[np.int64],
    query: Pixels,
    query_labels: NDArray[np.int64],
    columns: int = 20,
) -> Image.Image:
    """Draw a task: the support images of each class, then its query images.

    support, query uint8 [n, height, width, 3]; labels int64 [n] index `names`.
    """
    parts = [_heading(title, columns, support)]
    for label, name in enumerate(names):
        members = support[support_labels == label]
        queries = query[query_labels == label]
        parts.append(_row(name, f"support: {len(members)}", members, columns))
        parts.append(_row("", f"query: {len(queries)}", queries, columns))
    return _stack(parts)


def stack_sheets(*sheets: Image.Image) -> Image.Image:
    """Put sheets one below the other."""
    return _stack(list(sheets))


def _row(name: str, remark: str, images: Pixels, columns: int) -> Image.Image:
    """Draw a name and its images, on as many lines as needed."""
    tile = _tile(images)
    lines = max(1, -(-len(images) // columns))
    sheet = Image.new("RGB", (LABEL + columns * tile, lines * tile + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((8, 6), _shorten(readable(name), draw), INK, _font(15))
    draw.text((8, 26), remark, FAINT, _font(13))
    for n, image in enumerate(images):
        picture = Image.fromarray(image).resize((tile - 2, tile - 2), Image.Resampling.NEAREST)
        sheet.paste(picture, (LABEL + n % columns * tile, n // columns * tile))
    return sheet


def _heading(text: str, columns: int, images: ImageSet | Pixels) -> Image.Image:
    pixels = images.images if isinstance(images, ImageSet) else images
    sheet = Image.new("RGB", (LABEL + columns * _tile(pixels), LINE + 2 * GAP), PAPER)
    ImageDraw.Draw(sheet).text((8, GAP), readable(text), INK, _font(18))
    return sheet


def _tile(images: Pixels) -> int:
    """Return the side of an image on the sheet; small images are enlarged."""
    return images.shape[1] * max(1, 64 // images.shape[1]) + 2


def _stack(sheets: Sequence[Image.Image]) -> Image.Image:
    whole = Image.new("RGB", (max(s.width for s in sheets), sum(s.height for s in sheets)), PAPER)
    top = 0
    for sheet in sheets:
        whole.paste(sheet, (0, top))
        top += sheet.height
    return whole


def _shorten(name: str, draw: ImageDraw.ImageDraw) -> str:
    whole = name
    while draw.textlength(name, _font(15)) > LABEL - 16:
        name = name[:-2] + "…" if name.endswith("…") else name[:-1] + "…"
    return name if len(name) > 1 else whole


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(fonts_folder() / "DejaVuSans.ttf"), size)
