"""Winograd's algorithm F(4×4, 3×3): 3×3 convolutions with a quarter of the multiplications.

With the Toom–Cook matrices A, B, G of six points, a 4×4 tile of the output Y comes from a 6×6 tile
of the input d. Input tiles overlap by two. In between there is one matrix product over the channels
for each of the 36 positions ("frequencies") of a tile (⊙; rows are tiles):

    U = G W Gᵀ,   V = Bᵀ d B,   M = V ⊙ U,   Y = Aᵀ M A

These maps are linear, so the two parts of the backward pass are their transposes. With Z = A D Aᵀ
of the cotangent D

    x ⋆ D = Gᵀ (Zᵀ ⊙ V) G,      Wᵀ * D = overlapping sum of B (Z ⊙ Uᵀ) Bᵀ

This is exact algebra: float64 agrees with a direct convolution to 1e-14. In float32 the rounding
error is some four times that of a direct convolution (root mean square 5e-7 of the output's
standard deviation) with the points 0, ±2/3, ±3/2, ∞; the textbook's 0, ±1, ±2, ∞ would double it.
Pooling, statistics, gathering and scattering are done while a tile is in registers. docs/engine.md
draws the memory layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Int, Vector

OUTPUT_SIDE = 4  #: of an output tile
INPUT_SIDE = 6  #: of an input tile
FREQUENCIES = INPUT_SIDE * INPUT_SIDE  #: positions in an input tile
#: numbers of a tile buffer per frequency: 16 tiles of 32 channels; larger and smaller were slower
BUFFER_SIZE = 512
#: distance of two frequencies; a power of two would map all of them to the same few cache lines
BUFFER_STRIDE = BUFFER_SIZE + 16
GROUP = 4  #: tiles in a group: rows of the small products

Tile = Sequence[Sequence[Vector]]


def toom_cook(
    points: list[float], out: int = OUTPUT_SIDE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Aᵀ [out, n], G [n, 3] and Bᵀ [n, n] of F(out, 3) for n − 1 finite points and ∞.

    >>> At, G, Bt = toom_cook([0, 1, -1], out=2)
    >>> d, g = np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7])
    >>> At @ ((G @ g) * (Bt @ d))  # 1·5 + 2·6 + 3·7, 2·5 + 3·6 + 4·7
    array([38., 56.])
    """
    n, p = out + 2, np.array(points, float)
    At, G, Bt = np.zeros((out, n)), np.zeros((n, 3)), np.zeros((n, n))
    for j in range(n - 1):
        others = np.delete(p, j)
        At[:, j] = p[j] ** np.arange(out)
        G[j] = p[j] ** np.arange(3) / np.prod(p[j] - others)
        Bt[j, : n - 1] = np.poly(others)[::-1]
    At[-1, -1] = G[-1, -1] = 1
    Bt[-1] = np.poly(p)[::-1]
    return At, G, Bt


AT, G, BT = (
    np.where(np.abs(m) < 1e-12, 0, m) for m in toom_cook([0, 2 / 3, -2 / 3, 3 / 2, -3 / 2])
)


# ---------------------------------------------------------------------- maps of one tile
def weighted_sum(weights: np.ndarray, values: Sequence[Vector]) -> Vector:
    """Σ weight · value; weights of ±1 need no multiplication."""
    terms = sorted(
        ((w, v) for w, v in zip(weights, values, strict=True) if w),
        key=lambda term: abs(term[0]) != 1,
    )
    (weight, value), *more = terms
    total = value if weight == 1 else value * weight
    for weight, value in more:
        total = (
            total + value
            if weight == 1
            else total - value
            if weight == -1
            else total + value * weight
        )
    return total


def mirrored_rows(m: np.ndarray) -> tuple[list[tuple[int, int]], list[int]]:
    """Pairs of rows that differ in the sign of odd columns (points ±p), and the other rows."""
    signs, pairs = (-1.0) ** np.arange(m.shape[1]), []
    for i in range(len(m) - 1):
        if np.count_nonzero(m[i]) > 1 and np.allclose(m[i] * signs, m[i + 1]):
            pairs.append((i, i + 1))
    return pairs, [i for i in range(len(m)) if not any(i in pair for pair in pairs)]


def apply(m: np.ndarray, x: Sequence[Vector]) -> list[Vector]:
    """m x; mirrored rows share even and odd halves, mirrored columns sums and differences."""
    pairs, rest = mirrored_rows(m)
    if pairs:
        out = {i: weighted_sum(m[i], x) for i in rest}
        for i, j in pairs:
            even, odd = weighted_sum(m[i, ::2], x[::2]), weighted_sum(m[i, 1::2], x[1::2])
            out[i], out[j] = even + odd, even - odd
        return [out[i] for i in range(len(m))]
    pairs, rest = mirrored_rows(m.T)
    halves = [(x[i] + x[j], x[i] - x[j]) for i, j in pairs]
    columns = [i for i, _ in pairs] + rest
    return [
        weighted_sum(row[columns], [half[r % 2] for half in halves] + [x[i] for i in rest])
        for r, row in enumerate(m)
    ]


def apply_both_sides(m: np.ndarray, tile: Tile) -> list[list[Vector]]:
    """m tile mᵀ."""
    columns = [apply(m, column) for column in zip(*tile, strict=True)]
    return [apply(m, row) for row in zip(*columns, strict=True)]


def load_tile(view: ArrayView) -> list[list[Vector]]:
    """Load a view [rows, columns, 8] of constant size."""
    (_, rows, _), (_, columns, _) = view.axes[:2]
    return [[view.load(r, s) for s in range(columns)] for r in range(rows)]


def store_tile(tile: Tile, view: ArrayView) -> None:
    """The inverse of :func:`load_tile`."""
    for r, values in enumerate(tile):
        for s, value in enumerate(values):
            view.store(value, r, s)


def add_tile(tile: Tile, view: ArrayView, overlap: int) -> None:
    """Store a tile; its first rows and columns are added to those of its neighbours."""
    sums = [
        [
            value + view.load(r, s) if min(r, s) < overlap else value
            for s, value in enumerate(values)
        ]
        for r, values in enumerate(tile)
    ]
    store_tile(sums, view)


def pooling_windows(tile: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The four 2×2 windows of a 4×4 tile."""
    return [[tile[r + i][s + j] for i in (0, 1) for j in (0, 1)] for r in (0, 2) for s in (0, 2)]


def mask_outside(tile: Tile, height: Int, width: Int) -> list[list[Vector]]:
    """The tile with zeros outside its first ``height`` rows and ``width`` columns."""
    rows = [height.compare(">", r) for r in range(OUTPUT_SIDE)]
    columns = [width.compare(">", s) for s in range(OUTPUT_SIDE)]
    return [
        [tile[r][s].where(rows[r]).where(columns[s]) for s in range(OUTPUT_SIDE)]
        for r in range(OUTPUT_SIDE)
    ]


def add_sums(tile: Tile, other: Tile, sums: ArrayView, channel: Any) -> None:
    """sums[0] += Σ tile and sums[1] += Σ tile · other, in eight channels."""
    total, products = sums.load(0, channel), sums.load(1, channel)
    for left, right in zip(tile, other, strict=True):
        for a, b in zip(left, right, strict=True):
            total, products = total + a, products + a * b
    sums.store(total, 0, channel)
    sums.store(products, 1, channel)


# ---------------------------------------------------------------------- tile buffers
class TileBuffer:
    """Cache-sized memory for transformed tiles: [36, tiles / 4, channels / 8, 4, 8].

    Each of the 36 parts is followed by a few unused numbers (``BUFFER_STRIDE``).
    """

    def __init__(self, memory: ArrayView, channels: Any) -> None:
        self.memory, self.channels = memory, channels  # memory [36, BUFFER_STRIDE]

    def tile(self, t: Any, g: Any) -> ArrayView:
        """Tile t in channels 8 g to 8 g + 7: [6, 6, 8]."""
        start = t // GROUP * (GROUP * self.channels) + t % GROUP * LANES + g * (GROUP * LANES)
        axes = [
            ("row", INPUT_SIDE, INPUT_SIDE * BUFFER_STRIDE),
            ("column", INPUT_SIDE, BUFFER_STRIDE),
            ("lane", LANES, 1),
        ]
        return self.memory.window(0, start, size=(FREQUENCIES, LANES)).with_axes(axes)

    def group(self, f: Int, t: Int) -> ArrayView:
        """Tiles t to t + 3 at frequency f: [channels / 8, 4, 8]."""
        axes = [
            ("block", self.channels // LANES, GROUP * LANES),
            ("tile", GROUP, LANES),
            ("lane", LANES, 1),
        ]
        return (
            self.memory[f].window(t * self.channels, size=(GROUP * self.channels,)).with_axes(axes)
        )

    def block(self, f: Int, g: Any) -> ArrayView:
        """All tiles at frequency f in channels 8 g to 8 g + 7: [tiles / 4, 4, 8]."""
        group = GROUP * self.channels
        axes = [("group", BUFFER_SIZE // group, group), ("tile", GROUP, LANES), ("lane", LANES, 1)]
        return self.memory[f].window(g * (GROUP * LANES), size=(GROUP * LANES,)).with_axes(axes)
