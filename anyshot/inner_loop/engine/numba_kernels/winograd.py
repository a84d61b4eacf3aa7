"""Winograd's tiles: 3×3 convolutions with a quarter of the multiplications, F(4×4, 3×3).

With the Toom–Cook matrices A, B, G of six points, a 4×4 tile of the output Y comes from a 6×6 tile of the input d, the
input's tiles overlapping by two, and everything in between is a product of matrices over the channels, one for each of
the 36 places of a tile (⊙; rows are tiles):

    U = G W Gᵀ,   V = Bᵀ d B,   M = V ⊙ U,   Y = Aᵀ M A

These are linear maps, so the halves of the backward pass are their transposes: with Z = A D Aᵀ of the cotangent D

    x ⋆ D = Gᵀ (Zᵀ ⊙ V) G,      Wᵀ * D = overlapping sum of B (Z ⊙ Uᵀ) Bᵀ

which is exact algebra: float64 agrees with a direct convolution to 1e-14. In float32 rounding is some four times that
of a direct convolution (root mean square 5e-7 of the output's deviation) with the points 0, ±2/3, ±3/2, ∞; the
textbook's 0, ±1, ±2, ∞ would be twice as bad. Pooling, statistics, gathering and scattering happen to a tile while
it is in registers. docs/engine.md draws how all this lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshot.inner_loop.engine.numba_kernels.codegen import LANES, Vector, View, Whole

OUT, SIDE = 4, 6  #: side of an output tile and of an input tile
FREQUENCIES = SIDE * SIDE  #: places of an input tile
NUMBERS = 512  #: of the tiles in flight at each of the 36 places: 16 tiles of 32 channels; more or fewer were slower
PLACE = (
    NUMBERS + 16
)  #: from one place to the next; powers of two would all fall on the same few lines of the cache
ROWS = 4  #: tiles in a group: rows of the small products

Tile = Sequence[Sequence[Vector]]


def toom_cook(points: list[float], out: int = OUT) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


# ---------------------------------------------------------------------------------------------- maps of one tile
def weighted(weights: np.ndarray, values: Sequence[Vector]) -> Vector:
    """Σ weight · value; a weight of one costs nothing."""
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


def mirrored(m: np.ndarray) -> tuple[list[tuple[int, int]], list[int]]:
    """Pairs of rows that differ by the sign of their odd columns, as those of a point and its negative do; the rest."""
    signs, pairs = (-1.0) ** np.arange(m.shape[1]), []
    for i in range(len(m) - 1):
        if np.count_nonzero(m[i]) > 1 and np.allclose(m[i] * signs, m[i + 1]):
            pairs.append((i, i + 1))
    return pairs, [i for i in range(len(m)) if not any(i in pair for pair in pairs)]


def times(m: np.ndarray, x: Sequence[Vector]) -> list[Vector]:
    """m x, with the even and odd halves of mirrored rows (or the sums and differences of mirrored columns) shared."""
    pairs, rest = mirrored(m)
    if pairs:
        out = {i: weighted(m[i], x) for i in rest}
        for i, j in pairs:
            even, odd = weighted(m[i, ::2], x[::2]), weighted(m[i, 1::2], x[1::2])
            out[i], out[j] = even + odd, even - odd
        return [out[i] for i in range(len(m))]
    pairs, rest = mirrored(m.T)
    halves = [(x[i] + x[j], x[i] - x[j]) for i, j in pairs]
    columns = [i for i, _ in pairs] + rest
    return [
        weighted(row[columns], [half[r % 2] for half in halves] + [x[i] for i in rest])
        for r, row in enumerate(m)
    ]


def both_sides(m: np.ndarray, tile: Tile) -> list[list[Vector]]:
    """m tile mᵀ."""
    columns = [times(m, column) for column in zip(*tile, strict=True)]
    return [times(m, row) for row in zip(*columns, strict=True)]


def read(view: View) -> list[list[Vector]]:
    """All of a view [rows, columns, 8] whose size is known."""
    (_, rows, _), (_, columns, _) = view.axes[:2]
    return [[view.load(r, s) for s in range(columns)] for r in range(rows)]


def write(tile: Tile, view: View) -> None:
    """The reverse of :func:`read`."""
    for r, values in enumerate(tile):
        for s, value in enumerate(values):
            view.store(value, r, s)


def add(tile: Tile, view: View, overlap: int) -> None:
    """Write a tile, adding its first rows and columns to what is there: the neighbours above and to the left."""
    sums = [
        [
            value + view.load(r, s) if min(r, s) < overlap else value
            for s, value in enumerate(values)
        ]
        for r, values in enumerate(tile)
    ]
    write(sums, view)


def windows(tile: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The four 2×2 windows of a 4×4 tile."""
    return [[tile[r + i][s + j] for i in (0, 1) for j in (0, 1)] for r in (0, 2) for s in (0, 2)]


def inside(tile: Tile, height: Whole, width: Whole) -> list[list[Vector]]:
    """The tile with zeros beyond its first rows and columns."""
    rows, columns = (
        [height.compare(">", r) for r in range(OUT)],
        [width.compare(">", s) for s in range(OUT)],
    )
    return [[tile[r][s].where(rows[r]).where(columns[s]) for s in range(OUT)] for r in range(OUT)]


def add_sums(tile: Tile, other: Tile, sums: View, channel: Any) -> None:
    """sums[0] += Σ tile, sums[1] += Σ tile · other, in eight channels."""
    total, products = sums.load(0, channel), sums.load(1, channel)
    for left, right in zip(tile, other, strict=True):
        for a, b in zip(left, right, strict=True):
            total, products = total + a, products + a * b
    sums.store(total, 0, channel)
    sums.store(products, 1, channel)


# ---------------------------------------------------------------------------------------------- tiles in flight
class Flight:
    """Transformed tiles of some channels, in the cache: [36, tiles / 4, channels / 8, 4, 8], and after each of the 36
    a few numbers that nobody uses."""

    def __init__(self, memory: View, channels: Any) -> None:
        self.memory, self.channels = memory, channels  # memory is [36, PLACE]

    def tile(self, t: Any, g: Any) -> View:
        """Tile t, in the channels from 8 g on: [6, 6, 8]."""
        start = t // ROWS * (ROWS * self.channels) + t % ROWS * LANES + g * (ROWS * LANES)
        axes = [("row", SIDE, SIDE * PLACE), ("column", SIDE, PLACE), ("lane", LANES, 1)]
        return self.memory.window(0, start, size=(FREQUENCIES, LANES)).seen_as(axes)

    def group(self, f: Whole, t: Whole) -> View:
        """Four tiles from t on at the place f: [channels / 8, 4, 8]."""
        axes = [
            ("block", self.channels // LANES, ROWS * LANES),
            ("tile", ROWS, LANES),
            ("lane", LANES, 1),
        ]
        return self.memory[f].window(t * self.channels, size=(ROWS * self.channels,)).seen_as(axes)

    def block(self, f: Whole, g: Any) -> View:
        """All tiles at the place f, in the channels from 8 g on: [tiles / 4, 4, 8]."""
        group = ROWS * self.channels
        axes = [("group", NUMBERS // group, group), ("tile", ROWS, LANES), ("lane", LANES, 1)]
        return self.memory[f].window(g * (ROWS * LANES), size=(ROWS * LANES,)).seen_as(axes)
