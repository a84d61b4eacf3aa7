"""Example pictures for a first visit: drawn symbols in three classes of uneven size."""

from __future__ import annotations

from functools import cache

import numpy as np

from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.workspace import Workspace
from anyshot.data.embedded.glyph_drawing import draw_images
from anyshot.data.embedded.glyph_shapes import distance_field, faces_with
from anyshot.data.encode import encode_image

SIDE = 160  # pixels
FACES = 4  # fonts that a symbol is taken from
#: name, symbol, pictures to learn from, pictures to classify
SYMBOLS = (
    ("horse", "♞", 10, 4),
    ("umbrella", "☂", 5, 4),
    ("airplane", "✈", 2, 4),
)


def add_examples(workspace: Workspace) -> None:
    """Add the example classes and pictures, as one change."""
    for name, symbol, labelled, unlabelled in SYMBOLS:
        workspace.add_class(name, "examples")
        key = list(workspace.groups)[-1]
        for i, file in enumerate(draw_symbol(symbol, labelled + unlabelled)):
            target = key if i < labelled else POOL
            workspace.add_photo(f"{symbol} {i + 1}.png", file, target, "examples")


@cache
def draw_symbol(symbol: str, count: int) -> tuple[bytes, ...]:
    """PNG files of a symbol; always the same ones."""
    fields = np.stack([distance_field(symbol, face) for face in faces_with(symbol)[:FACES]])
    images = draw_images(fields, count, SIDE, np.random.default_rng(ord(symbol)))
    return tuple(encode_image(image) for image in images)
