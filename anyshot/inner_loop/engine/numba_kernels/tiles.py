"""The maps of Winograd's algorithm between whole images and tiles, for any 3×3 convolution.

Unlike the fused passes of :mod:`.conv_layers` they write all tiles to memory, so that a library
multiplies them: faster for many channels, which do not fit into a tile buffer.
"""

from __future__ import annotations

import numpy as np

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.codegen import Builder
from anyshot.inner_loop.engine.numba_kernels.compile import kernel
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Int
from anyshot.inner_loop.engine.numba_kernels.winograd import (
    AT,
    BT,
    INPUT_SIDE,
    OUTPUT_SIDE,
    apply_both_sides,
    load_tile,
    store_tile,
)

IMAGES = "image height width channel"  #: of whole tiles
PADDED = "image padded_height padded_width channel"
TILES = "36 image row column channel"


def _map_tiles(
    builder: Builder, m: np.ndarray, images: ArrayView, tiles: ArrayView, first: Int, end: Int,
    to_tiles: bool = True,
) -> None:  # fmt: skip
    """Apply m to the tiles of images ``first`` to ``end`` − 1; or from tiles to images."""
    side = m.shape[1] if to_tiles else m.shape[0]
    with (
        builder.loop(end - first) as k,
        builder.loop(tiles.length("row")) as r,
        builder.loop(tiles.length("column")) as s,
        builder.loop(tiles.length("channel"), LANES) as c,
    ):
        n = first + k
        pixels = images[n].window(r * OUTPUT_SIDE, s * OUTPUT_SIDE, c, size=(side, side, LANES))
        frequencies = _tile(tiles, n, r, s, c)
        source, target = (pixels, frequencies) if to_tiles else (frequencies, pixels)
        store_tile(apply_both_sides(m, load_tile(source)), target)


def _tile(tiles: ArrayView, n: Int, r: Int, s: Int, c: Int) -> ArrayView:
    """The 36 frequencies of a tile, in eight channels, as [6, 6, 8]."""
    part = tiles.window(0, n, r, s, c, size=(INPUT_SIDE**2, 1, 1, 1, LANES))
    (_, _, stride), *_ = tiles.axes
    return part.with_axes(
        [
            ("row", INPUT_SIDE, INPUT_SIDE * stride),
            ("column", INPUT_SIDE, stride),
            ("lane", LANES, 1),
        ]
    )


@kernel(x=PADDED, V=TILES)
def input_tiles(builder: Builder, x: ArrayView, V: ArrayView, first: Int, end: Int) -> None:
    """V = Bᵀ d B of images with a border."""
    _map_tiles(builder, BT, x, V, first, end)


@kernel(y=IMAGES, M=TILES)
def output_images(builder: Builder, y: ArrayView, M: ArrayView, first: Int, end: Int) -> None:
    """Y = Aᵀ M A."""
    _map_tiles(builder, AT, y, M, first, end, to_tiles=False)


@kernel(g=IMAGES, Z=TILES)
def cotangent_tiles(builder: Builder, g: ArrayView, Z: ArrayView, first: Int, end: Int) -> None:
    """Z = A D Aᵀ of cotangents of the output."""
    _map_tiles(builder, AT.T, g, Z, first, end)
