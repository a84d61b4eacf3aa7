"""The four passes of a block of layers 2–4, a few dozen tiles at a time, to stay in the cache.

An activation x (or its tangent or cotangent) has a border of zeros for the convolution, and is
padded to whole tiles, as are y and p = pool(y). ``height`` and ``width`` are the valid size of y.
Filters are [36, inputs, outputs], transposed for the backward passes. docs/engine.md draws the
layouts.

Kernels take up to 20 arguments, because Numba takes each array as an argument of its own. The axis
names in ``@kernel(...)`` document and check them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.codegen import Builder
from anyshot.inner_loop.engine.numba_kernels.compile import kernel
from anyshot.inner_loop.engine.numba_kernels.matmul import tile_correlations, tile_products
from anyshot.inner_loop.engine.numba_kernels.pooled_norm import flush_sums
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Int
from anyshot.inner_loop.engine.numba_kernels.winograd import (
    AT,
    BT,
    BUFFER_STRIDE,
    FREQUENCIES,
    GROUP,
    INPUT_SIDE,
    OUTPUT_SIDE,
    G,
    TileBuffer,
    add_sums,
    add_tile,
    apply_both_sides,
    load_tile,
    mask_outside,
    pooling_windows,
    store_tile,
)

MAP = "image input/8 padded_height padded_width 8"  #: x, its tangent and cotangent
DENSE = "image output/8 tiled_height tiled_width 8"  #: y and its tangent
#: p, its tangent and cotangent, and the codes of the maxima
POOLED = "image output/8 tiled_height/2 tiled_width/2 8"
CHANNELS = "output"
SUMS = "2 output"
FILTERS = "36 input output"
FILTERS_TRANSPOSED = "36 output input"
TILES = f"buffers {FREQUENCIES} {BUFFER_STRIDE}"  #: memory of tile buffers
TABLE = "tile 3"  #: image, row and column of each tile of this batch and of the next


# ---------------------------------------------------------------------- filters
@kernel(W="output 3 3 input", U=FILTERS_TRANSPOSED)
def transform_filters(builder: Builder, W: ArrayView, U: ArrayView) -> None:
    """U = G W Gᵀ, for the backward passes; from W [inputs, 3, 3, outputs] for the forward ones."""
    with builder.loop(W.length("output")) as o, builder.loop(W.length("input"), LANES) as i:
        store_tile(
            apply_both_sides(G, load_tile(W[o].window(0, 0, i, size=(3, 3, LANES)))),
            _frequencies(U, o, i),
        )


@kernel(dU=FILTERS_TRANSPOSED, dW="output 3 3 input")
def transform_filters_backward(builder: Builder, dU: ArrayView, dW: ArrayView) -> None:
    """The transpose of :func:`transform_filters`: dW = Gᵀ dU G."""
    with builder.loop(dW.length("output")) as o, builder.loop(dW.length("input"), LANES) as i:
        store_tile(
            apply_both_sides(G.T, load_tile(_frequencies(dU, o, i))),
            dW[o].window(0, 0, i, size=(3, 3, LANES)),
        )


def _frequencies(U: ArrayView, o: Int, i: Int) -> ArrayView:
    """The 36 frequencies of filters, in eight channels, as [6, 6, 8]."""
    part = U.window(0, o, i, size=(FREQUENCIES, 1, LANES))
    (_, _, stride), *_ = U.axes
    return part.with_axes(
        [
            ("row", INPUT_SIDE, INPUT_SIDE * stride),
            ("column", INPUT_SIDE, stride),
            ("lane", LANES, 1),
        ]
    )


# ---------------------------------------------------------------------- batches of tiles
class TileBatch:
    """The tiles that are processed together: their number, and the position of each."""

    def __init__(
        self, builder: Builder, count: Int, table: ArrayView, height: Int, width: Int
    ) -> None:
        self.builder = builder
        self.count = count
        self.table = table
        self.height, self.width = height, width
        self.capacity = table.length("tile") // 2

    @contextmanager
    def loop(self, blocks: Any) -> Iterator[tuple[Int, Int]]:
        """Loop over blocks of channels and tiles."""
        with self.builder.loop(blocks) as g, self.builder.loop(self.count) as t:
            yield g, t

    def position(self, t: Int) -> list[Int]:
        """Image, row and column of a tile."""
        return [self.table.get_int(t, k) for k in range(3)]

    def tile(
        self, view: ArrayView, g: Int, t: Int, side: int, scale: int = OUTPUT_SIDE
    ) -> ArrayView:
        """A tile's side × side part of an array in which tiles are ``scale`` pixels apart."""
        image, row, column = self.position(t)
        return view[image, g].window(row * scale, column * scale, size=(side, side))

    def prefetch(self, view: ArrayView, g: Int, t: Int) -> None:
        """Prefetch the 4×4 pixels of the corresponding tile of the next batch."""
        image, row, column = self.position(t + self.capacity)
        for r in range(OUTPUT_SIDE):
            for s in (0, 2):  # two pixels fill a cache line of 64 bytes
                view.prefetch(image, g, row * OUTPUT_SIDE + r, column * OUTPUT_SIDE + s)

    def valid_size(self, t: Int) -> tuple[Int, Int]:
        """Numbers of valid rows and columns of y from this tile's corner on."""
        _, row, column = self.position(t)
        return self.height - row * OUTPUT_SIDE, self.width - column * OUTPUT_SIDE


@contextmanager
def _tile_batches(
    builder: Builder, y: ArrayView, table: ArrayView, height: Int, width: Int
) -> Iterator[tuple[Int, TileBatch]]:
    """Loop over y in batches of tiles: the number of the first tile, and the batch."""
    columns = y.length("tiled_width") // OUTPUT_SIDE
    tiles = y.length("tiled_height") // OUTPUT_SIDE * columns
    total = y.length("image") * tiles
    capacity = table.length("tile") // 2
    batches = (total + capacity - 1) // capacity
    with builder.loop(batches) as batch:
        first = batch * capacity
        with builder.loop(capacity * 2) as t:
            image = (first + t) // tiles
            tile = (first + t) % tiles
            for k, value in enumerate((image, tile // columns, tile % columns)):
                table.put(value, t, k)
        count = builder.minimum(capacity, total - first)
        yield first, TileBatch(builder, count, table, height, width)


def _zero_unused_tiles(builder: Builder, batch: TileBatch, tiles: TileBuffer) -> None:
    """Zeros for the tiles that are missing in the last group of four."""
    rest = (batch.count + (GROUP - 1)) // GROUP * GROUP - batch.count
    with builder.loop(rest) as t, builder.loop(tiles.channels // LANES) as g:
        to = tiles.tile(batch.count + t, g)
        store_tile([[to.zero()] * INPUT_SIDE] * INPUT_SIDE, to)


def _load_input_tiles(builder: Builder, batch: TileBatch, x: ArrayView, V: TileBuffer) -> None:
    """V = Bᵀ d B of the batch."""
    with batch.loop(x.length("input/8")) as (g, t):
        store_tile(apply_both_sides(BT, load_tile(batch.tile(x, g, t, INPUT_SIDE))), V.tile(t, g))
        batch.prefetch(x, g, t)
    _zero_unused_tiles(builder, batch, V)


def _add_input_tiles(builder: Builder, batch: TileBatch, dV: TileBuffer, dx: ArrayView) -> None:
    """dx = overlapping sum of B dV Bᵀ; an image's first rows and columns start at zero."""
    with batch.loop(dx.length("input/8")) as (g, t):
        image, row, column = batch.position(t)
        with builder.if_then((row + column).compare("==", 0)):
            _zero_first_rows_and_columns(builder, dx[image, g])
        add_tile(
            apply_both_sides(BT.T, load_tile(dV.tile(t, g))),
            batch.tile(dx, g, t, INPUT_SIDE),
            overlap=INPUT_SIDE - OUTPUT_SIDE,
        )


def _zero_first_rows_and_columns(builder: Builder, plane: ArrayView) -> None:
    """Zeros in the first two rows and columns."""
    for k in range(INPUT_SIDE - OUTPUT_SIDE):
        with builder.loop(plane.length("padded_width")) as s:
            plane.store(plane.zero(), k, s)
        with builder.loop(plane.length("padded_height")) as r:
            plane.store(plane.zero(), r, k)


def _load_scaled_dy(
    builder: Builder, batch: TileBatch, constant: ArrayView,
    terms: list[tuple[ArrayView, ArrayView]], dz: ArrayView, code: ArrayView, Z: TileBuffer,
) -> None:  # fmt: skip
    """Z = A D Aᵀ of the batch, D = scatter(dz) + constant + Σ factor · array, 0 outside y."""
    with batch.loop(dz.length("output/8")) as (g, t):
        D = [[constant.load(g * LANES)] * OUTPUT_SIDE for _ in range(OUTPUT_SIDE)]
        for factor, array in terms:
            times = factor.load(g * LANES)
            tile = load_tile(batch.tile(array, g, t, OUTPUT_SIDE))
            D = [
                [D[r][s] + times * tile[r][s] for s in range(OUTPUT_SIDE)]
                for r in range(OUTPUT_SIDE)
            ]
        values = batch.tile(dz, g, t, 2, scale=2)
        codes = batch.tile(code, g, t, 2, scale=2)
        for k in range(4):
            value, places = values.load(k // 2, k % 2), codes.load_codes(k // 2, k % 2)
            for j in range(4):
                r, s = 2 * (k // 2) + j // 2, 2 * (k % 2) + j % 2
                D[r][s] = D[r][s] + value.where(builder.code_equals(places, j))
        store_tile(apply_both_sides(AT.T, mask_outside(D, *batch.valid_size(t))), Z.tile(t, g))
        batch.prefetch(terms[-1][1], g, t)
    _zero_unused_tiles(builder, batch, Z)


def _choose_pivot(builder: Builder, batch: TileBatch, M: TileBuffer, pivot: ArrayView) -> None:
    """The mean of the first tile: close enough to the mean of all to keep the squares small."""
    count = builder.broadcast_int(
        builder.minimum(batch.height, OUTPUT_SIDE) * builder.minimum(batch.width, OUTPUT_SIDE),
        pivot,
    )
    with builder.loop(pivot.length("output"), LANES) as c:
        tile = mask_outside(
            apply_both_sides(AT, load_tile(M.tile(0, c // LANES))), batch.height, batch.width
        )
        total = pivot.zero()
        for value in (value for row in tile for value in row):
            total = total + value
        pivot.store(total / count, c)


# ---------------------------------------------------------------------- the passes
@kernel(
    x=MAP, U=FILTERS, y=DENSE, p=POOLED, code=POOLED, pivot=CHANNELS, sums=SUMS, total=SUMS,
    memory=TILES, table=TABLE,
)  # fmt: skip
def forward(
    builder: Builder, x: ArrayView, U: ArrayView, height: Int, width: Int, y: ArrayView,
    p: ArrayView, code: ArrayView, pivot: ArrayView, sums: ArrayView, total: ArrayView,
    memory: ArrayView, table: ArrayView,
) -> None:  # fmt: skip
    """y = W * x, p = pool(y), codes, a pivot, Σ (y − pivot) and Σ (y − pivot)² [2, channels]."""
    V, M = TileBuffer(memory[0], U.length("input")), TileBuffer(memory[1], U.length("output"))
    with _tile_batches(builder, y, table, height, width) as (first, batch):
        _load_input_tiles(builder, batch, x, V)
        tile_products(builder, V, U, M, batch.count)
        with builder.if_then(first.compare("==", 0)):
            _choose_pivot(builder, batch, M, pivot)
        with batch.loop(y.length("output/8")) as (g, t):
            tile = apply_both_sides(AT, load_tile(M.tile(t, g)))
            store_tile(tile, batch.tile(y, g, t, OUTPUT_SIDE))
            maxima = batch.tile(p, g, t, 2, scale=2)
            codes = batch.tile(code, g, t, 2, scale=2)
            for k, window in enumerate(pooling_windows(tile)):
                best, places = builder.maximum(window)
                maxima.store(best, k // 2, k % 2)
                codes.store_codes(places, k // 2, k % 2)
            centre = pivot.load(g * LANES)
            apart = mask_outside(
                [[value - centre for value in row] for row in tile], *batch.valid_size(t)
            )
            add_sums(apart, apart, sums, g * LANES)
        flush_sums(builder, sums, total)


@kernel(
    x=MAP, U=FILTERS_TRANSPOSED, y=DENSE, c1=CHANNELS, c0=CHANNELS, dz=POOLED, code=POOLED, dx=MAP,
    dU=FILTERS_TRANSPOSED, memory=TILES, table=TABLE,
)  # fmt: skip
def backward(
    builder: Builder, x: ArrayView, U: ArrayView, height: Int, width: Int, y: ArrayView,
    c1: ArrayView, c0: ArrayView, dz: ArrayView, code: ArrayView, dx: ArrayView, dU: ArrayView,
    memory: ArrayView, table: ArrayView,
) -> None:  # fmt: skip
    """dx = Wᵀ * D and, transformed and added to dU, x ⋆ D; D = scatter(dz) + c0 + c1 y."""
    V, Z = TileBuffer(memory[0], U.length("input")), TileBuffer(memory[1], U.length("output"))
    with _tile_batches(builder, y, table, height, width) as (_, batch):
        _load_input_tiles(builder, batch, x, V)
        _load_scaled_dy(builder, batch, c0, [(c1, y)], dz, code, Z)
        tile_correlations(builder, Z, V, dU, batch.count)
        tile_products(builder, Z, U, V, batch.count)  # V is free again
        _add_input_tiles(builder, batch, V, dx)


@kernel(
    x=MAP, xd=MAP, U=FILTERS, Ud=FILTERS, y=DENSE, mean=CHANNELS, code=POOLED, yd=DENSE, pd=POOLED,
    sums=SUMS, total=SUMS, memory=TILES, table=TABLE,
)  # fmt: skip
def tangent(
    builder: Builder, x: ArrayView, xd: ArrayView, U: ArrayView, Ud: ArrayView, height: Int,
    width: Int, y: ArrayView, mean: ArrayView, code: ArrayView, yd: ArrayView, pd: ArrayView,
    sums: ArrayView, total: ArrayView, memory: ArrayView, table: ArrayView,
) -> None:  # fmt: skip
    """y′ = W′ * x + W * x′, p′ at the maxima; Σ y′, Σ y′ (y − mean) [2, channels]."""
    V, M = TileBuffer(memory[0], U.length("input")), TileBuffer(memory[1], U.length("output"))
    with _tile_batches(builder, y, table, height, width) as (_, batch):
        _load_input_tiles(builder, batch, x, V)
        tile_products(builder, V, Ud, M, batch.count)
        _load_input_tiles(builder, batch, xd, V)
        tile_products(builder, V, U, M, batch.count, add=True)
        with batch.loop(y.length("output/8")) as (g, t):
            tile = apply_both_sides(AT, load_tile(M.tile(t, g)))
            store_tile(tile, batch.tile(yd, g, t, OUTPUT_SIDE))
            maxima = batch.tile(pd, g, t, 2, scale=2)
            codes = batch.tile(code, g, t, 2, scale=2)
            for k, window in enumerate(pooling_windows(tile)):
                maxima.store(
                    builder.select_by_code(window, codes.load_codes(k // 2, k % 2)), k // 2, k % 2
                )
            centre = mean.load(g * LANES)
            apart = [
                [value - centre for value in row]
                for row in load_tile(batch.tile(y, g, t, OUTPUT_SIDE))
            ]
            add_sums(mask_outside(tile, *batch.valid_size(t)), apart, sums, g * LANES)
            batch.prefetch(y, g, t)
        flush_sums(builder, sums, total)


@kernel(
    x=MAP, xd=MAP, U=FILTERS_TRANSPOSED, Ud=FILTERS_TRANSPOSED, y=DENSE, yd=DENSE, c1=CHANNELS,
    c0=CHANNELS, c1d=CHANNELS, c0d=CHANNELS, dz=POOLED, dzd=POOLED, code=POOLED, dxd=MAP,
    dU=FILTERS_TRANSPOSED, memory=TILES, table=TABLE,
)  # fmt: skip
def tangent_backward(
    builder: Builder, x: ArrayView, xd: ArrayView, U: ArrayView, Ud: ArrayView, height: Int,
    width: Int, y: ArrayView, yd: ArrayView, c1: ArrayView, c0: ArrayView, c1d: ArrayView,
    c0d: ArrayView, dz: ArrayView, dzd: ArrayView, code: ArrayView, dxd: ArrayView, dU: ArrayView,
    memory: ArrayView, table: ArrayView,
) -> None:  # fmt: skip
    """dx′ = Wᵀ * D′ + W′ᵀ * D and, transformed and added to dU, x ⋆ D′ + x′ ⋆ D.

    D′ = scatter(dz′) + c0′ + c1′ y + c1 y′ is the tangent of D.
    """
    V, outputs = TileBuffer(memory[0], U.length("input")), U.length("output")
    Z, Zd = TileBuffer(memory[1], outputs), TileBuffer(memory[2], outputs)
    with _tile_batches(builder, y, table, height, width) as (_, batch):
        _load_scaled_dy(builder, batch, c0, [(c1, y)], dz, code, Z)
        _load_scaled_dy(builder, batch, c0d, [(c1d, y), (c1, yd)], dzd, code, Zd)
        _load_input_tiles(builder, batch, x, V)
        tile_correlations(builder, Zd, V, dU, batch.count)
        _load_input_tiles(builder, batch, xd, V)
        tile_correlations(builder, Z, V, dU, batch.count)
        tile_products(builder, Zd, U, V, batch.count)
        tile_products(builder, Z, Ud, V, batch.count, add=True)
        _add_input_tiles(builder, batch, V, dxd)
