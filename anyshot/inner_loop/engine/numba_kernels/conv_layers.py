"""The four passes of a block of layers 2–4, a few dozen tiles at a time, so that all in between stays cached.

An activation x (or its tangent or cotangent) has the border of zeros that the convolution wants, and more where the
last tiles stand over; y and p = pool(y) have whole tiles too. ``height`` and ``width`` say how much of y counts.
Filters are [36, inputs, outputs], or transposed for the way back. docs/engine.md draws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyshot.inner_loop.engine.numba_kernels.codegen import LANES, Pen, View, Whole
from anyshot.inner_loop.engine.numba_kernels.compile import compiled
from anyshot.inner_loop.engine.numba_kernels.matmul import tile_correlations, tile_products
from anyshot.inner_loop.engine.numba_kernels.pooled_norm import flush
from anyshot.inner_loop.engine.numba_kernels.winograd import (
    AT,
    BT,
    FREQUENCIES,
    OUT,
    PLACE,
    ROWS,
    SIDE,
    Flight,
    G,
    add,
    add_sums,
    both_sides,
    inside,
    read,
    windows,
    write,
)

MAP = "image input/8 tall wide 8"  #: x and what is like it: tall = 4 rows of tiles + 2
DENSE = "image output/8 high broad 8"  #: y and what is like it: high = 4 rows of tiles
POOLED = (
    "image output/8 high/2 broad/2 8"  #: p, its tangent and cotangent, and the codes of the maxima
)
CHANNELS, SUMS = "output", "2 output"
FORTH, BACK = "36 input output", "36 output input"  #: filters
TILES = f"memories {FREQUENCIES} {PLACE}"  #: for the tiles in flight
TABLE = "tile 3"  #: of the tiles in flight, and as many after them: image, row, column


# ---------------------------------------------------------------------------------------------- filters
@compiled(W="output 3 3 input", U=BACK)
def filters(pen: Pen, W: View, U: View) -> None:
    """U = G W Gᵀ; given W [inputs, 3, 3, outputs], that for the way forth."""
    with pen.loop(W.length("output")) as o, pen.loop(W.length("input"), LANES) as i:
        write(both_sides(G, read(W[o].window(0, 0, i, size=(3, 3, LANES)))), _frequencies(U, o, i))


@compiled(dU=BACK, dW="output 3 3 input")
def weights(pen: Pen, dU: View, dW: View) -> None:
    """The transpose of :func:`filters`: dW = Gᵀ dU G."""
    with pen.loop(dW.length("output")) as o, pen.loop(dW.length("input"), LANES) as i:
        write(
            both_sides(G.T, read(_frequencies(dU, o, i))), dW[o].window(0, 0, i, size=(3, 3, LANES))
        )


def _frequencies(U: View, o: Whole, i: Whole) -> View:
    """The 36 places of filters, in eight channels, as [6, 6, 8]."""
    part = U.window(0, o, i, size=(FREQUENCIES, 1, LANES))
    (_, _, stride), *_ = U.axes
    return part.seen_as(
        [("row", SIDE, SIDE * stride), ("column", SIDE, stride), ("lane", LANES, 1)]
    )


# ---------------------------------------------------------------------------------------------- tiles in flight
class Batch:
    """The tiles in flight: how many, and where each is."""

    def __init__(self, pen: Pen, count: Whole, table: View, height: Whole, width: Whole) -> None:
        self.pen, self.count, self.table, self.height, self.width = pen, count, table, height, width
        self.most = table.length("tile") // 2

    @contextmanager
    def each(self, blocks: Any) -> Iterator[tuple[Whole, Whole]]:
        """Block of channels and number of each tile."""
        with self.pen.loop(blocks) as g, self.pen.loop(self.count) as t:
            yield g, t

    def where(self, t: Whole) -> list[Whole]:
        """Image, row and column of a tile."""
        return [self.table.whole(t, k) for k in range(3)]

    def of(self, view: View, g: Whole, t: Whole, side: int, scale: int = OUT) -> View:
        """A tile's side × side places of an array where tiles begin ``scale`` places apart."""
        image, row, column = self.where(t)
        return view[image, g].window(row * scale, column * scale, size=(side, side))

    def fetch(self, view: View, g: Whole, t: Whole) -> None:
        """Ask the cache for the 4×4 places of the tile that comes as many after this as there are in flight."""
        image, row, column = self.where(t + self.most)
        for r in range(OUT):
            for s in (0, 2):  # two pixels fill a line of 64 bytes
                view.fetch(image, g, row * OUT + r, column * OUT + s)

    def counts(self, t: Whole) -> tuple[Whole, Whole]:
        """How many rows and columns of y there are from this tile on."""
        _, row, column = self.where(t)
        return self.height - row * OUT, self.width - column * OUT


@contextmanager
def _batches(
    pen: Pen, y: View, table: View, height: Whole, width: Whole
) -> Iterator[tuple[Whole, Batch]]:
    """The first tile and the tiles in flight, for each of the batches that y has."""
    columns = y.length("broad") // OUT
    tiles = y.length("high") // OUT * columns
    total, most = y.length("image") * tiles, table.length("tile") // 2
    batches = (total + most - 1) // most
    with pen.loop(batches) as batch:
        first = batch * most
        with pen.loop(most * 2) as t:
            image, place = (first + t) // tiles, (first + t) % tiles
            for k, value in enumerate((image, place // columns, place % columns)):
                table.put(value, t, k)
        yield first, Batch(pen, pen.least(most, total - first), table, height, width)


def _clear_rest(pen: Pen, batch: Batch, tiles: Flight) -> None:
    """Zeros for the tiles that the last four lack."""
    rest = (batch.count + (ROWS - 1)) // ROWS * ROWS - batch.count
    with pen.loop(rest) as t, pen.loop(tiles.channels // LANES) as g:
        to = tiles.tile(batch.count + t, g)
        write([[to.zero()] * SIDE] * SIDE, to)


def _read_tiles(pen: Pen, batch: Batch, x: View, V: Flight) -> None:
    """V = Bᵀ d B of the tiles in flight."""
    with batch.each(x.length("input/8")) as (g, t):
        write(both_sides(BT, read(batch.of(x, g, t, SIDE))), V.tile(t, g))
        batch.fetch(x, g, t)
    _clear_rest(pen, batch, V)


def _add_tiles(pen: Pen, batch: Batch, dV: Flight, dx: View) -> None:
    """dx = overlapping sum of B dV Bᵀ; an image's first rows and columns, with no neighbours before, start at zero."""
    with batch.each(dx.length("input/8")) as (g, t):
        image, row, column = batch.where(t)
        with pen.when((row + column).compare("==", 0)):
            _clear_first(pen, dx[image, g])
        add(both_sides(BT.T, read(dV.tile(t, g))), batch.of(dx, g, t, SIDE), overlap=SIDE - OUT)


def _clear_first(pen: Pen, plane: View) -> None:
    """Zeros in the first two rows and columns."""
    for k in range(SIDE - OUT):
        with pen.loop(plane.length("wide")) as s:
            plane.store(plane.zero(), k, s)
        with pen.loop(plane.length("tall")) as r:
            plane.store(plane.zero(), r, k)


def _spread(
    pen: Pen,
    batch: Batch,
    constant: View,
    terms: list[tuple[View, View]],
    dz: View,
    code: View,
    Z: Flight,
) -> None:
    """Z = A D Aᵀ of the tiles in flight of D = scatter(dz) + constant + Σ factor · array, zero beyond y."""
    with batch.each(dz.length("output/8")) as (g, t):
        D = [[constant.load(g * LANES)] * OUT for _ in range(OUT)]
        for factor, array in terms:
            times, tile = factor.load(g * LANES), read(batch.of(array, g, t, OUT))
            D = [[D[r][s] + times * tile[r][s] for s in range(OUT)] for r in range(OUT)]
        values, codes = batch.of(dz, g, t, 2, scale=2), batch.of(code, g, t, 2, scale=2)
        for k in range(4):
            value, places = values.load(k // 2, k % 2), codes.load_codes(k // 2, k % 2)
            for j in range(4):
                r, s = 2 * (k // 2) + j // 2, 2 * (k % 2) + j % 2
                D[r][s] = D[r][s] + value.where(pen.equal(places, j))
        write(both_sides(AT.T, inside(D, *batch.counts(t))), Z.tile(t, g))
        batch.fetch(terms[-1][1], g, t)
    _clear_rest(pen, batch, Z)


def _near_mean(pen: Pen, batch: Batch, M: Flight, pivot: View) -> None:
    """The means of the first tile's outputs: near enough to the mean of all to keep the squares small."""
    count = pen.number(pen.least(batch.height, OUT) * pen.least(batch.width, OUT), pivot)
    with pen.loop(pivot.length("output"), LANES) as c:
        tile = inside(both_sides(AT, read(M.tile(0, c // LANES))), batch.height, batch.width)
        total = pivot.zero()
        for value in (value for row in tile for value in row):
            total = total + value
        pivot.store(total / count, c)


# ---------------------------------------------------------------------------------------------- the passes
@compiled(
    x=MAP,
    U=FORTH,
    y=DENSE,
    p=POOLED,
    code=POOLED,
    pivot=CHANNELS,
    sums=SUMS,
    total=SUMS,
    memory=TILES,
    table=TABLE,
)
def forward(
    pen: Pen, x: View, U: View, height: Whole, width: Whole, y: View, p: View, code: View, pivot: View, sums: View,
    total: View, memory: View, table: View,
) -> None:  # fmt: skip
    """y = W * x, p = pool(y) and its codes; a pivot and Σ (y − pivot), Σ (y − pivot)² [2, channels]."""
    V, M = Flight(memory[0], U.length("input")), Flight(memory[1], U.length("output"))
    with _batches(pen, y, table, height, width) as (first, batch):
        _read_tiles(pen, batch, x, V)
        tile_products(pen, V, U, M, batch.count)
        with pen.when(first.compare("==", 0)):
            _near_mean(pen, batch, M, pivot)
        with batch.each(y.length("output/8")) as (g, t):
            tile = both_sides(AT, read(M.tile(t, g)))
            write(tile, batch.of(y, g, t, OUT))
            maxima, codes = batch.of(p, g, t, 2, scale=2), batch.of(code, g, t, 2, scale=2)
            for k, window in enumerate(windows(tile)):
                best, places = pen.maximum(window)
                maxima.store(best, k // 2, k % 2)
                codes.store_codes(places, k // 2, k % 2)
            centre = pivot.load(g * LANES)
            apart = inside([[value - centre for value in row] for row in tile], *batch.counts(t))
            add_sums(apart, apart, sums, g * LANES)
        flush(pen, sums, total)


@compiled(
    x=MAP,
    U=BACK,
    y=DENSE,
    c1=CHANNELS,
    c0=CHANNELS,
    dz=POOLED,
    code=POOLED,
    dx=MAP,
    dU=BACK,
    memory=TILES,
    table=TABLE,
)
def backward(
    pen: Pen, x: View, U: View, height: Whole, width: Whole, y: View, c1: View, c0: View, dz: View, code: View,
    dx: View, dU: View, memory: View, table: View,
) -> None:  # fmt: skip
    """dx = Wᵀ * D and, transformed and added to dU, x ⋆ D; D = scatter(dz) + c0 + c1 y."""
    V, Z = Flight(memory[0], U.length("input")), Flight(memory[1], U.length("output"))
    with _batches(pen, y, table, height, width) as (_, batch):
        _read_tiles(pen, batch, x, V)
        _spread(pen, batch, c0, [(c1, y)], dz, code, Z)
        tile_correlations(pen, Z, V, dU, batch.count)
        tile_products(pen, Z, U, V, batch.count)  # V has done its work
        _add_tiles(pen, batch, V, dx)


@compiled(
    x=MAP, xd=MAP, U=FORTH, Ud=FORTH, y=DENSE, mean=CHANNELS, code=POOLED, yd=DENSE, pd=POOLED, sums=SUMS, total=SUMS,
    memory=TILES, table=TABLE,
)  # fmt: skip
def tangent(
    pen: Pen, x: View, xd: View, U: View, Ud: View, height: Whole, width: Whole, y: View, mean: View, code: View,
    yd: View, pd: View, sums: View, total: View, memory: View, table: View,
) -> None:  # fmt: skip
    """y′ = W′ * x + W * x′, p′ at the maxima; Σ y′, Σ y′ (y − mean) [2, channels]."""
    V, M = Flight(memory[0], U.length("input")), Flight(memory[1], U.length("output"))
    with _batches(pen, y, table, height, width) as (_, batch):
        _read_tiles(pen, batch, x, V)
        tile_products(pen, V, Ud, M, batch.count)
        _read_tiles(pen, batch, xd, V)
        tile_products(pen, V, U, M, batch.count, add=True)
        with batch.each(y.length("output/8")) as (g, t):
            tile = both_sides(AT, read(M.tile(t, g)))
            write(tile, batch.of(yd, g, t, OUT))
            maxima, codes = batch.of(pd, g, t, 2, scale=2), batch.of(code, g, t, 2, scale=2)
            for k, window in enumerate(windows(tile)):
                maxima.store(pen.chosen(window, codes.load_codes(k // 2, k % 2)), k // 2, k % 2)
            centre = mean.load(g * LANES)
            apart = [[value - centre for value in row] for row in read(batch.of(y, g, t, OUT))]
            add_sums(inside(tile, *batch.counts(t)), apart, sums, g * LANES)
            batch.fetch(y, g, t)
        flush(pen, sums, total)


@compiled(
    x=MAP, xd=MAP, U=BACK, Ud=BACK, y=DENSE, yd=DENSE, c1=CHANNELS, c0=CHANNELS, c1d=CHANNELS, c0d=CHANNELS, dz=POOLED,
    dzd=POOLED, code=POOLED, dxd=MAP, dU=BACK, memory=TILES, table=TABLE,
)  # fmt: skip
def tangent_backward(
    pen: Pen, x: View, xd: View, U: View, Ud: View, height: Whole, width: Whole, y: View, yd: View, c1: View, c0: View,
    c1d: View, c0d: View, dz: View, dzd: View, code: View, dxd: View, dU: View, memory: View, table: View,
) -> None:  # fmt: skip
    """dx′ = Wᵀ * D′ + W′ᵀ * D and, transformed and added to dU, x ⋆ D′ + x′ ⋆ D; with the tangent of D,
    D′ = scatter(dz′) + c0′ + c1′ y + c1 y′."""
    V, outputs = Flight(memory[0], U.length("input")), U.length("output")
    Z, Zd = Flight(memory[1], outputs), Flight(memory[2], outputs)
    with _batches(pen, y, table, height, width) as (_, batch):
        _spread(pen, batch, c0, [(c1, y)], dz, code, Z)
        _spread(pen, batch, c0d, [(c1d, y), (c1, yd)], dzd, code, Zd)
        _read_tiles(pen, batch, x, V)
        tile_correlations(pen, Zd, V, dU, batch.count)
        _read_tiles(pen, batch, xd, V)
        tile_correlations(pen, Z, V, dU, batch.count)
        tile_products(pen, Zd, U, V, batch.count)
        tile_products(pen, Z, Ud, V, batch.count, add=True)
        _add_tiles(pen, batch, V, dxd)
