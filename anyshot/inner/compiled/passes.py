"""The four passes of a block of layers 2–4, compiled, a few dozen tiles at a time, so that all in between stays cached.

Memory: an activation x (or its tangent or cotangent) is [n, channels / 8, 4 rows + 2, 4 columns + 2, 8] for rows ×
columns tiles, with the border of zeros that the convolution wants (and more where the last tiles stand over); y and y′
are [n, channels / 8, 4 rows, 4 columns, 8], pooled arrays [n, channels / 8, 2 rows, 2 columns, 8]. ``height`` and
``width`` say how much of y counts. Filters are [36, inputs, outputs], or transposed for the way back.
"""

from __future__ import annotations

import numpy as np

from anyshot.inner.compiled import tiles
from anyshot.inner.compiled.jit import Array, compiled
from anyshot.inner.compiled.products import tile_correlations, tile_products
from anyshot.inner.compiled.tiles import FOUR, FREQUENCIES, NUMBERS, OUT, PLACE
from anyshot.inner.compiled.vectors import LANES

_input, _cotangent = tiles.tile_map(tiles.BT), tiles.tile_map(tiles.BT.T, overlap=2)  # Bᵀ · B and, adding up, B · Bᵀ
_filter, _filter_cotangent = tiles.tile_map(tiles.G), tiles.tile_map(tiles.G.T)  # G · Gᵀ and Gᵀ · G
_output = tiles.tile_map(tiles.AT)  # Aᵀ · A
_pool, _gather, _fetch = tiles.output_and_pool, tiles.output_and_gather, tiles.fetch
_spread, _spread_tangent = tiles.spread, tiles.spread_tangent


# ---------------------------------------------------------------------------------------------- filters
@compiled
def filters(W: Array) -> Array:
    """U = G W Gᵀ of W [outputs, 3, 3, inputs], as [36, outputs, inputs] for the way back."""
    outputs, inputs = W.shape[0], W.shape[3]
    U, size = np.empty((FREQUENCIES, outputs, inputs), W.dtype), inputs * outputs
    for o in range(outputs):
        for i in range(0, inputs, LANES):
            _filter(U, o * inputs + i, 6 * size, size, W, 9 * o * inputs + i, 3 * inputs, inputs)
    return U


@compiled
def turned_filters(W: Array) -> Array:
    """The same as [36, inputs, outputs]."""
    outputs, inputs = W.shape[0], W.shape[3]
    turned = np.empty((inputs, 3, 3, outputs), W.dtype)
    for o in range(outputs):
        for r in range(3):
            for s in range(3):
                for i in range(inputs):
                    turned[i, r, s, o] = W[o, r, s, i]
    return filters(turned)


@compiled
def weights(dU: Array) -> Array:
    """The transpose of :func:`filters`: Gᵀ dU G [outputs, 3, 3, inputs] of dU [36, outputs, inputs]."""
    _, outputs, inputs = dU.shape
    dW, size = np.empty((outputs, 3, 3, inputs), dU.dtype), inputs * outputs
    for o in range(outputs):
        for i in range(0, inputs, LANES):
            _filter_cotangent(dW, 9 * o * inputs + i, 3 * inputs, inputs, dU, o * inputs + i, 6 * size, size)
    return dW


# ---------------------------------------------------------------------------------------------- tiles in flight
@compiled
def _memory(like: Array) -> Array:
    """For the tiles in flight: [36, tiles / 4, channels / 8, 4, 8], and a few numbers more after each of the 36."""
    return np.empty(FREQUENCIES * PLACE, like.dtype)


@compiled
def _slot(t: int, channels: int) -> int:
    """Where tile t of those in flight begins."""
    return t // 4 * 4 * channels + t % 4 * LANES


@compiled
def _places(x: Array, y: Array) -> Array:
    """A table for as many tiles as may be in flight, in fours, and as many after them, to fetch these in time."""
    most = NUMBERS // (4 * LANES * max(x.shape[1], y.shape[1])) * 4
    return np.empty((2 * most, 5), np.int64)


@compiled
def _locate(first: int, x: Array, y: Array, height: int, width: int, places: Array) -> int:
    """Fill the table: where each tile begins in x, y and pooled y, and how much of y there is from there on.

    How many tiles are in flight.
    """
    rows, columns = y.shape[2] // OUT, y.shape[3] // OUT
    for t in range(len(places)):
        i, place = divmod(first + t, rows * columns)
        r, s = divmod(place, columns)
        places[t, 0] = ((i * x.shape[1] * x.shape[2] + OUT * r) * x.shape[3] + OUT * s) * LANES
        places[t, 1] = ((i * y.shape[1] * y.shape[2] + OUT * r) * y.shape[3] + OUT * s) * LANES
        places[t, 2] = ((i * y.shape[1] * y.shape[2] // 2 + 2 * r) * y.shape[3] // 2 + 2 * s) * LANES
        places[t, 3], places[t, 4] = height - OUT * r, width - OUT * s
    return min(len(places) // 2, len(y) * rows * columns - first)


@compiled
def _clear_rest(tiles: Array, count: int, channels: int) -> None:
    """Zeros for the tiles that the last four lack."""
    for t in range(count, -(-count // 4) * 4):
        for g in range(channels // LANES):
            for f in range(FREQUENCIES):
                for lane in range(LANES):
                    tiles[_slot(t, channels) + g * FOUR + f * PLACE + lane] = 0


@compiled
def _read_tiles(x: Array, places: Array, count: int, V: Array) -> None:
    """V = Bᵀ d B of the tiles in flight."""
    _, blocks, tall, wide, _ = x.shape
    for g in range(blocks):
        plane = g * tall * wide * LANES
        for t in range(count):
            to = _slot(t, blocks * LANES) + g * FOUR
            _input(V, to, 6 * PLACE, PLACE, x, places[t, 0] + plane, wide * LANES, LANES)
            _fetch(x, places[t + len(places) // 2, 0] + plane, wide * LANES)
    _clear_rest(V, count, blocks * LANES)


@compiled
def _add_tiles(dV: Array, places: Array, count: int, dx: Array) -> None:
    """dx = overlapping sum of B dV Bᵀ; an image's first rows and columns, with no neighbours before, start at zero."""
    _, blocks, tall, wide, _ = dx.shape
    for g in range(blocks):
        plane = g * tall * wide * LANES
        for t in range(count):
            image, inside = divmod(places[t, 0], blocks * tall * wide * LANES)
            if inside == 0:
                for r in range(tall):
                    for s in range(wide if r < 2 else 2):
                        for lane in range(LANES):
                            dx[image, g, r, s, lane] = 0
            source = _slot(t, blocks * LANES) + g * FOUR
            _cotangent(dx, places[t, 0] + plane, wide * LANES, LANES, dV, source, 6 * PLACE, PLACE)


@compiled
def _spread_tiles(places: Array, count: int, y: Array, c1: Array, c0: Array, dz: Array, code: Array, Z: Array) -> None:
    """Z = A D Aᵀ of the tiles in flight of D = scatter(dz) + c0 + c1 y."""
    _, blocks, tall, wide, _ = y.shape
    for g in range(blocks):
        plane = g * tall * wide * LANES
        for t in range(count):
            _spread(
                Z, _slot(t, blocks * LANES) + g * FOUR, y, places[t, 1] + plane, wide * LANES,
                dz, code, places[t, 2] + plane // 4, wide // 2 * LANES, c0, c1, g * LANES, places[t, 3], places[t, 4],
            )  # fmt: skip
            _fetch(y, places[t + len(places) // 2, 1] + plane, wide * LANES)
    _clear_rest(Z, count, blocks * LANES)


@compiled
def _spread_tangent_tiles(
    places: Array, count: int, y: Array, yd: Array, c1: Array, c1d: Array, c0d: Array, dzd: Array, code: Array, Z: Array
) -> None:
    """Z = A D′ Aᵀ of the tiles in flight of D′ = scatter(dz′) + c0′ + c1′ y + c1 y′."""
    _, blocks, tall, wide, _ = y.shape
    for g in range(blocks):
        plane = g * tall * wide * LANES
        for t in range(count):
            _spread_tangent(
                Z, _slot(t, blocks * LANES) + g * FOUR, y, yd, places[t, 1] + plane, wide * LANES,
                dzd, code, places[t, 2] + plane // 4, wide // 2 * LANES, c0d, c1d, c1, g * LANES,
                places[t, 3], places[t, 4],
            )  # fmt: skip
            _fetch(yd, places[t + len(places) // 2, 1] + plane, wide * LANES)
    _clear_rest(Z, count, blocks * LANES)


@compiled
def _near_mean(M: Array, height: int, width: int, channels: int) -> Array:
    """The means of the first tile's outputs: near enough to the mean of all to keep the squares small."""
    tile, pivot = np.empty((OUT, OUT, LANES), M.dtype), np.zeros(channels, M.dtype)
    for g in range(channels // LANES):
        _output(tile, 0, OUT * LANES, LANES, M, g * FOUR, 6 * PLACE, PLACE)
        for r in range(min(height, OUT)):
            for s in range(min(width, OUT)):
                for lane in range(LANES):
                    pivot[g * LANES + lane] += tile[r, s, lane] / (min(height, OUT) * min(width, OUT))
    return pivot


@compiled
def _flush(sums: Array, total: Array) -> None:
    """total += sums, in float64; sums = 0."""
    for k in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            total[k, c] += sums[k, c]
            sums[k, c] = 0


# ---------------------------------------------------------------------------------------------- the passes
@compiled
def forward(x: Array, U: Array, height: int, width: int, y: Array, p: Array, code: Array) -> tuple[Array, Array]:
    """y = W * x, p = pool(y) and its codes; a pivot and Σ (y − pivot), Σ (y − pivot)² [2, channels]."""
    n, blocks, tall, wide, _ = y.shape
    channels, places, V, M = blocks * LANES, _places(x, y), _memory(x), _memory(x)
    total, sums, pivot = np.zeros((2, channels)), np.zeros((2, channels), x.dtype), np.zeros(channels, x.dtype)
    for first in range(0, n * (tall // OUT) * (wide // OUT), len(places) // 2):
        count = _locate(first, x, y, height, width, places)
        _read_tiles(x, places, count, V)
        tile_products(V, U, M, count, False)
        if first == 0:
            pivot = _near_mean(M, height, width, channels)
        for g in range(blocks):
            plane = g * tall * wide * LANES
            for t in range(count):
                _pool(
                    M, _slot(t, channels) + g * FOUR, y, places[t, 1] + plane, wide * LANES,
                    p, code, places[t, 2] + plane // 4, wide // 2 * LANES, sums, pivot, g * LANES, channels,
                    places[t, 3], places[t, 4],
                )  # fmt: skip
        _flush(sums, total)
    return pivot, total


@compiled
def backward(
    x: Array, Ut: Array, height: int, width: int, y: Array, c1: Array, c0: Array, dz: Array, code: Array, dx: Array
) -> Array:
    """dx = Wᵀ * D and, transformed [36, outputs, inputs], x ⋆ D; D = scatter(dz) + c0 + c1 y."""
    places, V, Z, dU = _places(x, y), _memory(x), _memory(x), np.zeros_like(Ut)
    for first in range(0, len(y) * (y.shape[2] // OUT) * (y.shape[3] // OUT), len(places) // 2):
        count = _locate(first, x, y, height, width, places)
        _read_tiles(x, places, count, V)
        _spread_tiles(places, count, y, c1, c0, dz, code, Z)
        tile_correlations(Z, V, dU, count)
        tile_products(Z, Ut, V, count, False)  # V has done its work
        _add_tiles(V, places, count, dx)
    return dU


@compiled
def tangent(
    x: Array, xd: Array, U: Array, Ud: Array, height: int, width: int, y: Array, mean: Array, code: Array, yd: Array,
    pd: Array,
) -> Array:  # fmt: skip
    """y′ = W′ * x + W * x′, p′ at the maxima; Σ y′, Σ y′ (y − mean) [2, channels]."""
    n, blocks, tall, wide, _ = y.shape
    channels, places, V, M = blocks * LANES, _places(x, y), _memory(x), _memory(x)
    total, sums = np.zeros((2, channels)), np.zeros((2, channels), x.dtype)
    for first in range(0, n * (tall // OUT) * (wide // OUT), len(places) // 2):
        count = _locate(first, x, y, height, width, places)
        _read_tiles(x, places, count, V)
        tile_products(V, Ud, M, count, False)
        _read_tiles(xd, places, count, V)
        tile_products(V, U, M, count, True)
        for g in range(blocks):
            plane = g * tall * wide * LANES
            for t in range(count):
                _gather(
                    M, _slot(t, channels) + g * FOUR, yd, y, places[t, 1] + plane, wide * LANES,
                    pd, code, places[t, 2] + plane // 4, wide // 2 * LANES, sums, mean, g * LANES, channels,
                    places[t, 3], places[t, 4],
                )  # fmt: skip
                _fetch(y, places[t + len(places) // 2, 1] + plane, wide * LANES)
        _flush(sums, total)
    return total


@compiled
def tangent_backward(
    x: Array, xd: Array, Ut: Array, Udt: Array, height: int, width: int, y: Array, yd: Array, c1: Array, c0: Array,
    c1d: Array, c0d: Array, dz: Array, dzd: Array, code: Array, dxd: Array,
) -> Array:  # fmt: skip
    """dx′ = Wᵀ * D′ + W′ᵀ * D and, transformed, x ⋆ D′ + x′ ⋆ D."""
    places, V, Z, Zd, dU = _places(x, y), _memory(x), _memory(x), _memory(x), np.zeros_like(Ut)
    for first in range(0, len(y) * (y.shape[2] // OUT) * (y.shape[3] // OUT), len(places) // 2):
        count = _locate(first, x, y, height, width, places)
        _spread_tiles(places, count, y, c1, c0, dz, code, Z)
        _spread_tangent_tiles(places, count, y, yd, c1, c1d, c0d, dzd, code, Zd)
        _read_tiles(x, places, count, V)
        tile_correlations(Zd, V, dU, count)
        _read_tiles(xd, places, count, V)
        tile_correlations(Z, V, dU, count)
        tile_products(Zd, Ut, V, count, False)
        tile_products(Z, Udt, V, count, True)
        _add_tiles(V, places, count, dxd)
    return dU
