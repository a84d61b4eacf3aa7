"""Layer 1: fused convolution and pooling, and the weight gradient from the maxima alone.

Images are [n, height, width · colours]; the output has the layout of :mod:`.conv_layers`. The four
positions of a pooling window are four rows of a small product. So their maximum is found in
registers, and no dense output is written. scatter(dz) is zero except at one position of each
window, so the weight gradient is

    G_c = Σ_windows dz_c · (3×3 patch of x around the maximum),

a quarter of the work of a dense correlation. The sums of two channels stay in registers along a
row of windows.
"""

from __future__ import annotations

from typing import Any

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.codegen import Builder
from anyshot.inner_loop.engine.numba_kernels.compile import kernel
from anyshot.inner_loop.engine.numba_kernels.matmul import VECTORS, multiply_add
from anyshot.inner_loop.engine.numba_kernels.pooled_norm import flush_sums, zero_border
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Accumulator, Int, Vector

#: numbers read from each row of a patch; up to nine (3 pixels of 3 colours) are used
REACH = 2 * LANES
PATCH = 4 * LANES  #: memory for the 27 numbers of a patch

IMAGES = "image height numbers"
PADDED = "padded"  #: one image with a border of zeros, and REACH numbers after it
MAP = "image channel/8 padded_height padded_width 8"  #: layer 1's output
CODES = "image channel/8 row column 8"  #: positions of its maxima
FILTER = "3 patch channel"  #: rows, columns · colours, channels
CHANNELS = "channel"


def _pad(builder: Builder, image: ArrayView, colours: Int, padded: ArrayView) -> Int:
    """Copy an image into the padded one; returns the distance of two rows there."""
    numbers = image.length("numbers")
    pitch = numbers + colours * 2
    with builder.loop(image.length("height")) as r, builder.loop(numbers) as k:
        padded.put(image.get(r, k), (r + 1) * pitch + colours + k)
    return pitch


# ---------------------------------------------------------------------- patch moments
@kernel(x=IMAGES, padded=PADDED, T=f"3 3 colours 3 {REACH}", single="3 3 colours")
def patch_sums(
    builder: Builder, x: ArrayView, padded: ArrayView, T: ArrayView, single: ArrayView
) -> None:
    """Add Σ pixel · (pixels 0..2 below, −2..2 across) and Σ pixel, in float64.

    The first axis of the sums is: all rows, the first row, the last row. The second axis: the same
    for columns.
    """
    colours, height = T.length("colours"), x.length("height")
    width = x.length("numbers") // colours
    with builder.loop(x.length("image")) as image:
        pitch = _pad(builder, x[image], colours, padded)
        with builder.loop(3) as i, builder.loop(3) as j:
            (first, rows), (start, count) = _range(builder, i, height), _range(builder, j, width)
            with builder.loop(rows) as r, builder.loop(colours) as c:
                pixel = (first + r) * pitch + start * colours
                _add_neighbours(
                    builder,
                    padded,
                    pixel + c,
                    pixel - colours * 2,
                    pitch,
                    colours,
                    count,
                    T[i, j, c],
                )
                _add_pixels(builder, padded, pixel + c, colours, count, single, (i, j, c))


def _range(builder: Builder, which: Int, length: Int) -> tuple[Int, Int]:
    """Start in the padded image and length of: all rows (or columns), the first, the last."""
    start = builder.select(which.compare("==", 2), length, 1)
    return start, builder.select(which.compare("==", 0), length, 1)


def _add_neighbours(
    builder: Builder, x: ArrayView, pixel: Int, below: Int, pitch: Int, step: Int, count: Int,
    sums: ArrayView,
) -> None:  # fmt: skip
    """sums[3, 16] += Σ over pixels of a value times 16 numbers in its row and the two below."""
    totals = [[Accumulator(sums.load(dy, v * LANES)) for v in range(2)] for dy in range(3)]
    with builder.loop(count) as k:
        value = x.broadcast(pixel + k * step)
        for dy, row in enumerate(totals):
            for v, total in enumerate(row):
                total.add(value * x.load(below + k * step + pitch * dy + v * LANES))
    for dy, row in enumerate(totals):
        for v, total in enumerate(row):
            sums.store(total.current, dy, v * LANES)


def _add_pixels(
    builder: Builder, x: ArrayView, pixel: Int, step: Int, count: Int, to: ArrayView,
    indices: tuple[Any, ...],
) -> None:  # fmt: skip
    """Add some pixels to one element."""
    with builder.loop(count) as k:
        to.put(builder.llvm.fadd(to.get(*indices), x.get(pixel + k * step)), *indices)


# ---------------------------------------------------------------------- forward and tangent
def _window_values(
    builder: Builder, x: ArrayView, start: Int, pitch: Int, colours: Int, V: ArrayView,
    channel: Int,
) -> list[list[Vector]]:  # fmt: skip
    """V * x at the four positions of a window, for two vectors of channels: [vector][position]."""
    sums = [[Accumulator(x.zero()) for _ in range(VECTORS)] for _ in range(4)]
    positions = [start + pitch * (k // 2) + colours * (k % 2) for k in range(4)]

    def pixel(k: int, row: Int, across: Int) -> Vector:
        return x.broadcast(positions[k] + row * pitch + across)

    def weight(v: int, row: Int, across: Int) -> Vector:
        return V.load(row, across, channel + v * LANES)

    multiply_add(builder, sums, pixel, weight, 3, V.length("patch"), unroll=3)
    return [[row[v].current for row in sums] for v in range(VECTORS)]


@kernel(x=IMAGES, V=FILTER, offset=CHANNELS, a=MAP, code=CODES, padded=PADDED)
def forward(
    builder: Builder, x: ArrayView, colours: Int, V: ArrayView, offset: ArrayView, a: ArrayView,
    code: ArrayView, padded: ArrayView,
) -> None:  # fmt: skip
    """a = relu(pool(V * x) + offset) with its border, and the codes."""
    height, width = code.length("row"), code.length("column")
    with builder.loop(x.length("image")) as i:
        pitch = _pad(builder, x[i], colours, padded)
        with (
            builder.loop(code.length("channel/8"), VECTORS) as g,
            builder.loop(height) as r,
            builder.loop(width) as s,
        ):
            start = r * 2 * pitch + s * 2 * colours
            for v, window in enumerate(
                _window_values(builder, padded, start, pitch, colours, V, g * LANES)
            ):
                best, codes = builder.maximum(window)
                best = best + offset.load((g + v) * LANES)
                a.store(best.where(best.greater(0)), i, g + v, r + 1, s + 1)
                code.store_codes(codes, i, g + v, r, s)
        _zero_borders(builder, a[i], height, width)


@kernel(x=IMAGES, V=FILTER, offset=CHANNELS, a=MAP, code=CODES, ad=MAP, padded=PADDED)
def tangent(
    builder: Builder, x: ArrayView, colours: Int, V: ArrayView, offset: ArrayView, a: ArrayView,
    code: ArrayView, ad: ArrayView, padded: ArrayView,
) -> None:  # fmt: skip
    """a′ = [a > 0] (V * x at the maxima + offset) with its border."""
    height, width = code.length("row"), code.length("column")
    with builder.loop(x.length("image")) as i:
        pitch = _pad(builder, x[i], colours, padded)
        with (
            builder.loop(code.length("channel/8"), VECTORS) as g,
            builder.loop(height) as r,
            builder.loop(width) as s,
        ):
            start = r * 2 * pitch + s * 2 * colours
            for v, window in enumerate(
                _window_values(builder, padded, start, pitch, colours, V, g * LANES)
            ):
                value = builder.select_by_code(
                    window, code.load_codes(i, g + v, r, s)
                ) + offset.load((g + v) * LANES)
                open_ = a.load(i, g + v, r + 1, s + 1).greater(0)
                ad.store(value.where(open_), i, g + v, r + 1, s + 1)
        _zero_borders(builder, ad[i], height, width)


def _zero_borders(builder: Builder, image: ArrayView, height: Int, width: Int) -> None:
    with builder.loop(image.length("channel/8")) as g:
        zero_border(builder, image[g], height, width)


# ---------------------------------------------------------------------- weight gradient
@kernel(
    d=MAP, a=MAP, code=CODES, x=IMAGES, padded=PADDED, dz="column 8", patches=f"patches {PATCH}",
    sums=f"channel {PATCH}", part="1 channel", total=f"channel {PATCH}", total_dz="1 channel",
)  # fmt: skip
def gated_patch_sums(
    builder: Builder, d: ArrayView, a: ArrayView, code: ArrayView, x: ArrayView, colours: Int,
    padded: ArrayView, dz: ArrayView, patches: ArrayView, sums: ArrayView, part: ArrayView,
    total: ArrayView, total_dz: ArrayView,
) -> None:  # fmt: skip
    """Add Σ dz · patch [channels, 32], 9 · colours of them used, and Σ dz; dz = [a > 0] d."""
    height, width = code.length("row"), code.length("column")
    with builder.loop(x.length("image")) as i:
        pitch = _pad(builder, x[i], colours, padded)
        with builder.loop(height) as r:
            with builder.loop(width) as s:
                for k in range(4):
                    start = (r * 2 + k // 2) * pitch + (s * 2 + k % 2) * colours
                    _copy_patch(padded, start, pitch, colours * 3, patches, s * 4 + k)
            with builder.loop(code.length("channel/8")) as g:
                _gate_row(builder, d[i, g, r + 1], a[i, g, r + 1], dz, part, g * LANES)
                with builder.loop(LANES, 2) as lane:
                    _add_patches(builder, dz, code[i, g, r], lane, patches, sums, g * LANES + lane)
        flush_sums(builder, part, total_dz)
        flush_sums(builder, sums, total)


def _gate_row(
    builder: Builder, d: ArrayView, a: ArrayView, dz: ArrayView, sums: ArrayView, channel: Int
) -> None:
    """Write a row of dz = [a > 0] d and add Σ dz to sums."""
    total = Accumulator(sums.load(0, channel))
    with builder.loop(dz.length("column")) as s:
        value = d.load(s + 1).where(a.load(s + 1).greater(0))
        dz.store(value, s)
        total.add(value)
    sums.store(total.current, 0, channel)


def _copy_patch(
    x: ArrayView, start: Int, pitch: Int, across: Int, to: ArrayView, number: Int
) -> None:
    """Copy a 3×3 patch as 3 · across numbers; surplus numbers are overwritten or never read."""
    flat = to.with_axes([("numbers", to.length("patches") * PATCH, 1)])
    for k in range(3):
        for v in range(2):
            flat.store(
                x.load(start + pitch * k + v * LANES), number * PATCH + across * k + v * LANES
            )


def _add_patches(
    builder: Builder, dz: ArrayView, code: ArrayView, lane: Int, x: ArrayView, sums: ArrayView,
    channel: Int,
) -> None:  # fmt: skip
    """For two channels: sums += Σ over a row of windows of dz · (the patch of the code)."""
    vectors, each = range(PATCH // LANES), range(2)
    totals = [[Accumulator(sums.load(channel + c, v * LANES)) for v in vectors] for c in each]
    with builder.loop(dz.length("column")) as s:
        for c in each:
            patch, factor = s * 4 + code.get_int(s, lane + c), dz.broadcast(s, lane + c)
            for v, total in zip(vectors, totals[c], strict=True):
                total.add(factor * x.load(patch, v * LANES))
    for c, row in zip(each, totals, strict=True):
        for v, total in zip(vectors, row, strict=True):
            sums.store(total.current, channel + c, v * LANES)
