"""Layer 1, compiled: convolution and pooling together, window by window, and the weight gradient at the maxima alone.

Images are [n, height, width · colours]; what layer 1 gives is laid out as :mod:`.passes` wants it. The four places of a
pooling window are four rows of a small product, so that their maximum is found in registers and nothing dense is
written. scatter(dz) is zero but at one place of each window, so the weight gradient is

    G_c = Σ_windows dz_c · (3×3 patch of x around the maximum),

a quarter of a dense correlation's work. The sums of two channels stay in registers along a row of windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anyshot.inner.compiled.jit import Array, compiled
from anyshot.inner.compiled.kernels import clear_border
from anyshot.inner.compiled.products import VECTORS, multiply_add
from anyshot.inner.compiled.vectors import LANES, Pen, written_out

REACH = 2 * LANES  #: numbers read of each of a patch's three rows, of which up to nine (3 pixels of 3 colours) count
#: what the first, the middle and the last row (or column) of a patch run over: all, less the first, less the last
EDGES = np.array([[1, 0, -1], [1, 0, 0], [1, -1, 0]])
PATCH = 4 * LANES  #: room for a patch, 27 numbers


@compiled
def _pad(x: Array, colours: int, padded: Array) -> int:
    """An image [height, width · colours] into a flat array, zeros round it; how far apart rows are."""
    height, numbers = x.shape
    pitch = numbers + 2 * colours
    for r in range(height):
        start = (r + 1) * pitch + colours
        for k in range(numbers):
            padded[start + k] = x[r, k]
    return pitch


@compiled
def _padded(x: Array, colours: int) -> Array:
    return np.zeros((x.shape[1] + 2) * (x.shape[2] + 2 * colours) + REACH, x.dtype)


@written_out
def _add_neighbours(
    pen: Pen, sums: Any, to: Any, x: Any, pixel: Any, below: Any, pitch: Any, step: Any, n: Any
) -> None:
    """sums[3, 16] += Σ over n pixels of a value times 16 numbers in its row and the two rows below."""
    places = [[pen.place(to, (dy, REACH), (v, LANES)) for v in range(2)] for dy in range(3)]
    totals = [[pen.variable(pen.load(sums, place)) for place in row] for row in places]
    with pen.loop(n) as k:
        left, right = pen.broadcast(x, pen.place(pixel, (k, step))), pen.place(below, (k, step))
        for dy, row in enumerate(totals):
            for v, total in enumerate(row):
                total.add(left * pen.load(x, pen.place(right, (dy, pitch), (v, LANES))))
    for row, values in zip(places, totals, strict=True):
        for place, total in zip(row, values, strict=True):
            pen.store(total.now, sums, place)


@compiled
def patch_moments(x: Array, colours: int) -> tuple[Array, Array]:
    """Σ patch [9 · colours] and Σ patch patchᵀ over the zero-padded 3×3 patches (rows, columns, colours), in float64.

    The pixel (a, b) of a patch runs over the whole image but for its last row if a = 0 and its first if a = 2, and so
    for columns. So all pairs of pixels that are equally far apart share one sum over the image, less its edges: T[i, j]
    are the sums of pixel · (pixels 0..2 below, −2..2 across) over all rows (i = 0), the first or the last; j: columns.
    """
    n, height, numbers = x.shape
    width, pitch = numbers // colours, numbers + 2 * colours
    padded = np.zeros((height + 4) * pitch + 2 * REACH)
    T, single = np.zeros((3, 3, colours, 3, REACH)), np.zeros((3, 3, colours))
    for image in range(n):
        _pad(x[image], colours, padded)
        for i, first, rows in ((0, 1, height), (1, 1, 1), (2, height, 1)):
            for j, start, count in ((0, 1, width), (1, 1, 1), (2, width, 1)):
                for r in range(first, first + rows):
                    for c in range(colours):
                        pixel = r * pitch + start * colours
                        to = ((i * 3 + j) * colours + c) * 3 * REACH
                        _add_neighbours(T, to, padded, pixel + c, pixel - 2 * colours, pitch, colours, count)
                        for k in range(count):
                            single[i, j, c] += padded[pixel + c + k * colours]
    mean, second = np.zeros((3, 3, colours)), np.zeros((3, 3, colours, 3, 3, colours))
    for a in range(3):
        for b in range(3):
            for i in range(3):
                for j in range(3):
                    part = EDGES[a, i] * EDGES[b, j]
                    for c in range(colours):
                        mean[a, b, c] += part * single[i, j, c]
                        for dy in range(3 - a):
                            for other in range(3):
                                for d in range(colours):
                                    product = part * T[i, j, c, dy, (other - b + 2) * colours + d]
                                    second[a, b, c, a + dy, other, d] += product
                                    if dy:
                                        second[a + dy, other, d, a, b, c] += product
    return mean, second


def _window_values(pen: Pen, x: Any, start: Any, pitch: Any, colours: Any, V: Any, channel: Any, channels: Any) -> Any:
    """V * x at the four places of a window, for two vectors of channels: [vector][place]."""
    sums = [[pen.variable(pen.constant(0)) for _ in range(VECTORS)] for _ in range(4)]
    rows = [pen.place(start, (k // 2, pitch), (k % 2, colours)) for k in range(4)]
    across = pen.build.mul(colours, pen.index(3))
    depth, row = (across, 1, channels), (3, pitch, pen.build.mul(across, channels))
    multiply_add(pen, sums, rows, x, V, channel, LANES, depth, row, unroll=3)
    return [[places[v].now for places in sums] for v in range(VECTORS)]


@written_out
def _pool_window(
    pen: Pen, x: Any, start: Any, pitch: Any, colours: Any, V: Any, offset: Any, channel: Any, channels: Any,
    a: Any, i: Any, plane: Any, code: Any, j: Any, code_plane: Any,
) -> None:  # fmt: skip
    """a = relu(max + offset) of a window and the place of its maximum, in sixteen channels."""
    for v, window in enumerate(_window_values(pen, x, start, pitch, colours, V, channel, channels)):
        best, codes = pen.maximum(window)
        best = best + pen.load(offset, pen.place(channel, (v, LANES)))
        pen.store(best.where(best.above(0)), a, pen.place(i, (v, plane)))
        pen.store_codes(codes, code, pen.place(j, (v, code_plane)))


@written_out
def _gather_window(
    pen: Pen, x: Any, start: Any, pitch: Any, colours: Any, V: Any, offset: Any, channel: Any, channels: Any,
    a: Any, ad: Any, i: Any, plane: Any, code: Any, j: Any, code_plane: Any,
) -> None:  # fmt: skip
    """a′ = [a > 0] (value at the maximum + offset) of a window, in sixteen channels."""
    for v, window in enumerate(_window_values(pen, x, start, pitch, colours, V, channel, channels)):
        value = pen.chosen(window, pen.load_codes(code, pen.place(j, (v, code_plane))))
        value = value + pen.load(offset, pen.place(channel, (v, LANES)))
        place = pen.place(i, (v, plane))
        pen.store(value.where(pen.load(a, place).above(0)), ad, place)


@compiled
def forward(x: Array, colours: int, V: Array, offset: Array, a: Array, code: Array) -> None:
    """a = relu(pool(V * x) + offset) with its border, and the codes; V is [3, 3, colours, channels]."""
    padded = _padded(x, colours)
    n, blocks, height, width, _ = code.shape
    tall, wide = a.shape[2], a.shape[3]
    for i in range(n):
        pitch = _pad(x[i], colours, padded)
        for g in range(0, blocks, VECTORS):
            for r in range(height):
                for s in range(width):
                    _pool_window(
                        padded, 2 * r * pitch + 2 * s * colours, pitch, colours, V, offset, g * LANES, blocks * LANES,
                        a, (((i * blocks + g) * tall + r + 1) * wide + s + 1) * LANES, tall * wide * LANES,
                        code, (((i * blocks + g) * height + r) * width + s) * LANES, height * width * LANES,
                    )  # fmt: skip
        clear_border(a[i], height, width)


@compiled
def tangent(x: Array, colours: int, V: Array, offset: Array, a: Array, code: Array, ad: Array) -> None:
    """a′ = [a > 0] (V * x at the maxima + offset) with its border."""
    padded = _padded(x, colours)
    n, blocks, height, width, _ = code.shape
    tall, wide = a.shape[2], a.shape[3]
    for i in range(n):
        pitch = _pad(x[i], colours, padded)
        for g in range(0, blocks, VECTORS):
            for r in range(height):
                for s in range(width):
                    _gather_window(
                        padded, 2 * r * pitch + 2 * s * colours, pitch, colours, V, offset, g * LANES, blocks * LANES,
                        a, ad, (((i * blocks + g) * tall + r + 1) * wide + s + 1) * LANES, tall * wide * LANES,
                        code, (((i * blocks + g) * height + r) * width + s) * LANES, height * width * LANES,
                    )  # fmt: skip
        clear_border(ad[i], height, width)


@written_out
def _gate_row(pen: Pen, dz: Any, d: Any, a: Any, i: Any, sums: Any, channel: Any, n: Any) -> None:
    """n pixels of dz = [a > 0] d; adds Σ dz to sums."""
    total = pen.variable(pen.load(sums, channel))
    with pen.loop(n) as s:
        place = pen.place(i, (s, LANES))
        value = pen.load(d, place).where(pen.load(a, place).above(0))
        pen.store(value, dz, pen.place(pen.index(0), (s, LANES)))
        total.add(value)
    pen.store(total.now, sums, channel)


@written_out
def _copy_patch(pen: Pen, x: Any, start: Any, pitch: Any, across: Any, to: Any, place: Any) -> None:
    """The 3×3 patch of an image as 3 · across numbers in a row; what is copied too much is written over or not read."""
    for k in range(3):
        for v in range(2):
            value = pen.load(x, pen.place(start, (k, pitch), (v, LANES)))
            pen.store(value, to, pen.place(place, (k, across), (v, LANES)))


@written_out
def _add_patches(pen: Pen, sums: Any, to: Any, dz: Any, code: Any, j: Any, lane: Any, x: Any, windows: Any) -> None:
    """For two channels, sums += Σ over a row of windows of dz · patch: of a window's four patches that of the code."""
    vectors, each = range(PATCH // LANES), range(2)
    places = [[pen.place(to, (c, PATCH), (v, LANES)) for v in vectors] for c in each]
    totals = [[pen.variable(pen.load(sums, place)) for place in row] for row in places]
    with pen.loop(windows) as p:
        for c in each:
            here = pen.place(lane, (p, LANES), (c, 1))
            patch = pen.place(pen.index(0), (p, 4 * PATCH), (pen.whole(code, pen.build.add(j, here)), PATCH))
            factor = pen.broadcast(dz, here)
            for v, total in zip(vectors, totals[c], strict=True):
                total.add(factor * pen.load(x, pen.place(patch, (v, LANES))))
    for row, values in zip(places, totals, strict=True):
        for place, total in zip(row, values, strict=True):
            pen.store(total.now, sums, place)


@compiled
def gated_patch_sums(d: Array, a: Array, code: Array, x: Array, colours: int) -> tuple[Array, Array]:
    """Σ dz · patch [channels, 32], of which the first 9 · colours count, and Σ dz, with dz = [a > 0] d."""
    n, blocks, height, width, _ = code.shape
    tall, wide, padded = a.shape[2], a.shape[3], _padded(x, colours)
    dz, patches = np.empty(width * LANES, d.dtype), np.zeros(width * 4 * PATCH + LANES, d.dtype)
    sums, part = np.zeros((blocks * LANES, PATCH), d.dtype), np.zeros(blocks * LANES, d.dtype)
    total, total_dz = np.zeros(sums.shape), np.zeros(blocks * LANES)
    for i in range(n):
        pitch = _pad(x[i], colours, padded)
        for r in range(height):
            for s in range(width):
                for k in range(4):
                    start = (2 * r + k // 2) * pitch + (2 * s + k % 2) * colours
                    _copy_patch(padded, start, pitch, 3 * colours, patches, (4 * s + k) * PATCH)
            for g in range(blocks):
                large = (((i * blocks + g) * tall + r + 1) * wide + 1) * LANES
                small = ((i * blocks + g) * height + r) * width * LANES
                _gate_row(dz, d, a, large, part, g * LANES, width)
                for lane in range(0, LANES, 2):
                    _add_patches(sums, (g * LANES + lane) * PATCH, dz, code, small, lane, patches, width)
        for c in range(blocks * LANES):
            total_dz[c] += part[c]
            part[c] = 0
            for e in range(PATCH):
                total[c, e] += sums[c, e]
                sums[c, e] = 0
    return total, total_dz
