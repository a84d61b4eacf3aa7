"""Winograd's tiles, compiled: 3×3 convolutions with a quarter of the multiplications, F(4×4, 3×3).

With the Toom–Cook matrices A, B, G of six points, a 4×4 tile of the output Y comes from a 6×6 tile of the input d, the
input's tiles overlapping by two, and everything in between is a product of matrices over the channels, one for each of
the 36 places of a tile (⊙; rows are tiles):

    U = G W Gᵀ,   V = Bᵀ d B,   M = V ⊙ U,   Y = Aᵀ M A

These are linear maps, so the halves of the backward pass are their transposes: with Z = A D Aᵀ of the cotangent D

    x ⋆ D = Gᵀ (Zᵀ ⊙ V) G,      Wᵀ * D = overlapping sum of B (Z ⊙ Uᵀ) Bᵀ

which is exact algebra: float64 agrees with a direct convolution to 1e-14. In float32 rounding is some four times that
of a direct convolution (root mean square 5e-7 of the output's deviation) with the points 0, ±2/3, ±3/2, ∞; the
textbook's 0, ±1, ±2, ∞ would be twice as bad. Pooling, statistics, gathering and scattering happen to a tile while
it is in registers. :mod:`.passes` says how all this lies in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anyshot.inner.compiled.jit import Array
from anyshot.inner.compiled.vectors import LANES, Pen, Vector, written_out

OUT, FREQUENCIES = 4, 36  #: side of an output tile; places of an input tile
NUMBERS = 512  #: of the tiles in flight at each of the 36 places: 16 tiles of 32 channels; more or fewer were slower
PLACE = NUMBERS + 16  #: from one place to the next; powers of two would all fall on the same few lines of the cache
FOUR = 4 * LANES  #: numbers of four tiles in eight channels


def toom_cook(points: list[float], out: int = OUT) -> tuple[Array, Array, Array]:
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


AT, G, BT = (np.where(np.abs(m) < 1e-12, 0, m) for m in toom_cook([0, 2 / 3, -2 / 3, 3 / 2, -3 / 2]))


# ---------------------------------------------------------------------------------------------- maps of one tile
def weighted(weights: Array, values: Sequence[Vector]) -> Vector:
    """Σ weight · value; a weight of one costs nothing."""
    terms = sorted(((w, v) for w, v in zip(weights, values, strict=True) if w), key=lambda term: abs(term[0]) != 1)
    (weight, value), *more = terms
    total = value if weight == 1 else value * weight
    for weight, value in more:
        total = total + value if weight == 1 else total - value if weight == -1 else total + value * weight
    return total


def mirrored(m: Array) -> tuple[list[tuple[int, int]], list[int]]:
    """Pairs of rows that differ by the sign of their odd columns, as those of a point and its negative do; the rest."""
    signs, pairs = (-1.0) ** np.arange(m.shape[1]), []
    for i in range(len(m) - 1):
        if np.count_nonzero(m[i]) > 1 and np.allclose(m[i] * signs, m[i + 1]):
            pairs.append((i, i + 1))
    return pairs, [i for i in range(len(m)) if not any(i in pair for pair in pairs)]


def times(m: Array, x: Sequence[Vector]) -> list[Vector]:
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
    return [weighted(row[columns], [half[r % 2] for half in halves] + [x[i] for i in rest]) for r, row in enumerate(m)]


def both_sides(m: Array, tile: Sequence[Sequence[Vector]]) -> list[list[Vector]]:
    """m tile mᵀ."""
    columns = [times(m, column) for column in zip(*tile, strict=True)]
    return [times(m, row) for row in zip(*columns, strict=True)]


def read(pen: Pen, side: int, array: Any, start: Any, row: Any, column: Any) -> list[list[Vector]]:
    """A tile, from a place on; rows and columns are so many numbers apart."""
    return [[pen.load(array, pen.place(start, (r, row), (s, column))) for s in range(side)] for r in range(side)]


def write(pen: Pen, tile: Sequence[Sequence[Vector]], array: Any, start: Any, row: Any, column: Any) -> None:
    """The reverse of :func:`read`."""
    for r, values in enumerate(tile):
        for s, value in enumerate(values):
            pen.store(value, array, pen.place(start, (r, row), (s, column)))


def tile_map(m: Array, overlap: int = 0) -> Callable[..., Any]:
    """The function tile ↦ m tile mᵀ on eight channels, ``f(to, start, row, column, source, start, row, column)``.

    The first ``overlap`` rows and columns are added to what is there: the neighbours above and to the left came first.
    """

    @written_out
    def apply(pen: Pen, to: Any, a: Any, b: Any, c: Any, source: Any, d: Any, e: Any, f: Any) -> None:
        tile = both_sides(m, read(pen, m.shape[1], source, d, e, f))
        for r, values in enumerate(tile):
            for s, value in enumerate(values):
                if min(r, s) < overlap:
                    values[s] = value + pen.load(to, pen.place(a, (r, b), (s, c)))
        write(pen, tile, to, a, b, c)

    return apply


@written_out
def fetch(pen: Pen, array: Any, start: Any, row: Any) -> None:
    """Ask the cache for the 4×4 tile that begins here, to be read later."""
    for r in range(OUT):
        for s in (0, 2):  # two pixels fill a line of 64 bytes
            pen.fetch(array, pen.place(start, (r, row), (s, LANES)))


def _windows(tile: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The four 2×2 windows of a 4×4 tile."""
    return [[tile[r + i][s + j] for i in (0, 1) for j in (0, 1)] for r in (0, 2) for s in (0, 2)]


def _inside(pen: Pen, tile: Sequence[Sequence[Vector]], height: Any, width: Any) -> list[list[Vector]]:
    """The tile with zeros beyond its first rows and columns."""
    rows, columns = [pen.below(r, height) for r in range(OUT)], [pen.below(s, width) for s in range(OUT)]
    return [[tile[r][s].where(rows[r]).where(columns[s]) for s in range(OUT)] for r in range(OUT)]


def _add_sums(pen: Pen, tile: Sequence[Sequence[Vector]], other: Any, sums: Any, channel: Any, channels: Any) -> None:
    """sums[0] += Σ tile, sums[1] += Σ tile · other."""
    pairs = [(a, b) for rows in zip(tile, other, strict=True) for a, b in zip(*rows, strict=True)]
    second = pen.place(channel, (1, channels))
    total, products = pen.load(sums, channel), pen.load(sums, second)
    for a, b in pairs:
        total, products = total + a, products + a * b
    pen.store(total, sums, channel)
    pen.store(products, sums, second)


@written_out
def output_and_pool(
    pen: Pen, M: Any, m: Any, y: Any, a: Any, b: Any, p: Any, code: Any, c: Any, d: Any, sums: Any, pivot: Any,
    channel: Any, channels: Any, height: Any, width: Any,
) -> None:  # fmt: skip
    """Y = Aᵀ M A, the maxima of its four windows and their codes, and Σ (Y − pivot), Σ (Y − pivot)².

    M from m on goes to y from a on, in rows of b, and to p and code from c on, in rows of d; the sums to [2, channels].
    Of the tile ``height`` × ``width`` places count.
    """
    tile = both_sides(AT, read(pen, 6, M, m, 6 * PLACE, PLACE))
    write(pen, tile, y, a, b, LANES)
    for k, window in enumerate(_windows(tile)):
        best, codes = pen.maximum(window)
        place = pen.place(c, (k // 2, d), (k % 2, LANES))
        pen.store(best, p, place)
        pen.store_codes(codes, code, place)
    centre = pen.load(pivot, channel)
    apart = _inside(pen, [[value - centre for value in row] for row in tile], height, width)
    _add_sums(pen, apart, apart, sums, channel, channels)


@written_out
def output_and_gather(
    pen: Pen, M: Any, m: Any, yd: Any, y: Any, a: Any, b: Any, pd: Any, code: Any, c: Any, d: Any, sums: Any,
    mean: Any, channel: Any, channels: Any, height: Any, width: Any,
) -> None:  # fmt: skip
    """Y′ = Aᵀ M A, Y′ at the maxima, and Σ Y′, Σ Y′ (y − mean); the arguments as above."""
    tile = both_sides(AT, read(pen, 6, M, m, 6 * PLACE, PLACE))
    write(pen, tile, yd, a, b, LANES)
    for k, window in enumerate(_windows(tile)):
        place = pen.place(c, (k // 2, d), (k % 2, LANES))
        pen.store(pen.chosen(window, pen.load_codes(code, place)), pd, place)
    centre = pen.load(mean, channel)
    apart = [[value - centre for value in row] for row in read(pen, OUT, y, a, b, LANES)]
    _add_sums(pen, _inside(pen, tile, height, width), apart, sums, channel, channels)


def _spread(
    pen: Pen, Z: Any, z: Any, constant: Vector, terms: Sequence[tuple[Vector, Any]], a: Any, b: Any, dz: Any, code: Any,
    c: Any, d: Any, height: Any, width: Any,
) -> None:  # fmt: skip
    """Z = A D Aᵀ of D = scatter(dz) + constant + Σ factor · array, zero beyond height × width."""
    D = [[constant] * OUT for _ in range(OUT)]
    for factor, array in terms:
        tile = read(pen, OUT, array, a, b, LANES)
        D = [[D[r][s] + factor * tile[r][s] for s in range(OUT)] for r in range(OUT)]
    for k in range(4):
        place = pen.place(c, (k // 2, d), (k % 2, LANES))
        value, codes = pen.load(dz, place), pen.load_codes(code, place)
        for j in range(4):
            r, s = 2 * (k // 2) + j // 2, 2 * (k % 2) + j % 2
            D[r][s] = D[r][s] + value.where(pen.equal(codes, j))
    write(pen, both_sides(AT.T, _inside(pen, D, height, width)), Z, z, 6 * PLACE, PLACE)


@written_out
def spread(
    pen: Pen, Z: Any, z: Any, y: Any, a: Any, b: Any, dz: Any, code: Any, c: Any, d: Any, c0: Any, c1: Any,
    channel: Any, height: Any, width: Any,
) -> None:  # fmt: skip
    """Z = A D Aᵀ of D = scatter(dz) + c0 + c1 y; the arguments as above."""
    terms = [(pen.load(c1, channel), y)]
    _spread(pen, Z, z, pen.load(c0, channel), terms, a, b, dz, code, c, d, height, width)


@written_out
def spread_tangent(
    pen: Pen, Z: Any, z: Any, y: Any, yd: Any, a: Any, b: Any, dzd: Any, code: Any, c: Any, d: Any, c0d: Any,
    c1d: Any, c1: Any, channel: Any, height: Any, width: Any,
) -> None:  # fmt: skip
    """Z = A D′ Aᵀ of D′ = scatter(dz′) + c0′ + c1′ y + c1 y′."""
    terms = [(pen.load(c1d, channel), y), (pen.load(c1, channel), yd)]
    _spread(pen, Z, z, pen.load(c0d, channel), terms, a, b, dzd, code, c, d, height, width)
