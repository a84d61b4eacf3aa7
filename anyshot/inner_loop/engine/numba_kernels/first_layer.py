"""Layer 1: convolution and pooling together, window by window, and the weight gradient at the maxima alone.

Images are [n, height, width · colours]; what layer 1 gives is laid out as :mod:`.passes` wants it. The four places of a
pooling window are four rows of a small product, so that their maximum is found in registers and nothing dense is
written. scatter(dz) is zero but at one place of each window, so the weight gradient is

    G_c = Σ_windows dz_c · (3×3 patch of x around the maximum),

a quarter of a dense correlation's work. The sums of two channels stay in registers along a row of windows.
"""

from __future__ import annotations

from typing import Any

from anyshot.inner_loop.engine.numba_kernels.codegen import (
    LANES,
    Pen,
    Variable,
    Vector,
    View,
    Whole,
)
from anyshot.inner_loop.engine.numba_kernels.compile import compiled
from anyshot.inner_loop.engine.numba_kernels.matmul import VECTORS, multiply_add
from anyshot.inner_loop.engine.numba_kernels.pooled_norm import clear_border, flush

REACH = (
    2 * LANES
)  #: numbers read of each of a patch's three rows, of which up to nine (3 pixels of 3 colours) count
PATCH = 4 * LANES  #: room for a patch, 27 numbers

IMAGES, PADDED = (
    "image height numbers",
    "padded",
)  #: pictures, and one of them with zeros round it and a REACH after it
MAP, CODES = (
    "image channel/8 tall wide 8",
    "image channel/8 row column 8",
)  #: layer 1's output; of its maxima
FILTER, CHANNELS = "3 patch channel", "channel"  #: [rows, columns · colours, channels]


def _pad(pen: Pen, image: View, colours: Whole, padded: View) -> Whole:
    """An image into the middle of the padded one; how far apart rows are there."""
    numbers = image.length("numbers")
    pitch = numbers + colours * 2
    with pen.loop(image.length("height")) as r, pen.loop(numbers) as k:
        padded.put(image.get(r, k), (r + 1) * pitch + colours + k)
    return pitch


# ---------------------------------------------------------------------------------------------- patch moments
@compiled(x=IMAGES, padded=PADDED, T=f"3 3 colours 3 {REACH}", single="3 3 colours")
def patch_sums(pen: Pen, x: View, padded: View, T: View, single: View) -> None:
    """Adds Σ pixel · (pixels 0..2 below, −2..2 across) and Σ pixel, in float64: over all rows (the first axis 0), the
    first or the last, and all columns (the second axis 0), the first or the last."""
    colours, height = T.length("colours"), x.length("height")
    width = x.length("numbers") // colours
    with pen.loop(x.length("image")) as image:
        pitch = _pad(pen, x[image], colours, padded)
        with pen.loop(3) as i, pen.loop(3) as j:
            (first, rows), (start, count) = _run(pen, i, height), _run(pen, j, width)
            with pen.loop(rows) as r, pen.loop(colours) as c:
                pixel = (first + r) * pitch + start * colours
                _add_neighbours(
                    pen, padded, pixel + c, pixel - colours * 2, pitch, colours, count, T[i, j, c]
                )
                _add_pixels(pen, padded, pixel + c, colours, count, single, (i, j, c))


def _run(pen: Pen, which: Whole, length: Whole) -> tuple[Whole, Whole]:
    """The first place in the padded image and the number of all rows (or columns), the first one, or the last one."""
    return pen.choose(which.compare("==", 2), length, 1), pen.choose(
        which.compare("==", 0), length, 1
    )


def _add_neighbours(
    pen: Pen,
    x: View,
    pixel: Whole,
    below: Whole,
    pitch: Whole,
    step: Whole,
    count: Whole,
    sums: View,
) -> None:
    """sums[3, 16] += Σ over some pixels of a value times 16 numbers in its row and the two rows below."""
    totals = [[Variable(sums.load(dy, v * LANES)) for v in range(2)] for dy in range(3)]
    with pen.loop(count) as k:
        value = x.broadcast(pixel + k * step)
        for dy, row in enumerate(totals):
            for v, total in enumerate(row):
                total.add(value * x.load(below + k * step + pitch * dy + v * LANES))
    for dy, row in enumerate(totals):
        for v, total in enumerate(row):
            sums.store(total.now, dy, v * LANES)


def _add_pixels(
    pen: Pen, x: View, pixel: Whole, step: Whole, count: Whole, to: View, places: tuple[Any, ...]
) -> None:
    with pen.loop(count) as k:
        to.put(pen.build.fadd(to.get(*places), x.get(pixel + k * step)), *places)


# ---------------------------------------------------------------------------------------------- forward and tangent
def _window_values(
    pen: Pen, x: View, start: Whole, pitch: Whole, colours: Whole, V: View, channel: Whole
) -> list[list[Vector]]:
    """V * x at the four places of a window, for two vectors of channels: [vector][place]."""
    sums = [[Variable(x.zero()) for _ in range(VECTORS)] for _ in range(4)]
    places = [start + pitch * (k // 2) + colours * (k % 2) for k in range(4)]

    def pixel(k: int, row: Whole, across: Whole) -> Vector:
        return x.broadcast(places[k] + row * pitch + across)

    def weight(v: int, row: Whole, across: Whole) -> Vector:
        return V.load(row, across, channel + v * LANES)

    multiply_add(pen, sums, pixel, weight, 3, V.length("patch"), unroll=3)
    return [[place[v].now for place in sums] for v in range(VECTORS)]


@compiled(x=IMAGES, V=FILTER, offset=CHANNELS, a=MAP, code=CODES, padded=PADDED)
def forward(
    pen: Pen, x: View, colours: Whole, V: View, offset: View, a: View, code: View, padded: View
) -> None:
    """a = relu(pool(V * x) + offset) with its border, and the codes."""
    height, width = code.length("row"), code.length("column")
    with pen.loop(x.length("image")) as i:
        pitch = _pad(pen, x[i], colours, padded)
        with (
            pen.loop(code.length("channel/8"), VECTORS) as g,
            pen.loop(height) as r,
            pen.loop(width) as s,
        ):
            start = r * 2 * pitch + s * 2 * colours
            for v, window in enumerate(
                _window_values(pen, padded, start, pitch, colours, V, g * LANES)
            ):
                best, places = pen.maximum(window)
                best = best + offset.load((g + v) * LANES)
                a.store(best.where(best.above(0)), i, g + v, r + 1, s + 1)
                code.store_codes(places, i, g + v, r, s)
        _clear_borders(pen, a[i], height, width)


@compiled(x=IMAGES, V=FILTER, offset=CHANNELS, a=MAP, code=CODES, ad=MAP, padded=PADDED)
def tangent(
    pen: Pen,
    x: View,
    colours: Whole,
    V: View,
    offset: View,
    a: View,
    code: View,
    ad: View,
    padded: View,
) -> None:
    """a′ = [a > 0] (V * x at the maxima + offset) with its border."""
    height, width = code.length("row"), code.length("column")
    with pen.loop(x.length("image")) as i:
        pitch = _pad(pen, x[i], colours, padded)
        with (
            pen.loop(code.length("channel/8"), VECTORS) as g,
            pen.loop(height) as r,
            pen.loop(width) as s,
        ):
            start = r * 2 * pitch + s * 2 * colours
            for v, window in enumerate(
                _window_values(pen, padded, start, pitch, colours, V, g * LANES)
            ):
                value = pen.chosen(window, code.load_codes(i, g + v, r, s)) + offset.load(
                    (g + v) * LANES
                )
                open_ = a.load(i, g + v, r + 1, s + 1).above(0)
                ad.store(value.where(open_), i, g + v, r + 1, s + 1)
        _clear_borders(pen, ad[i], height, width)


def _clear_borders(pen: Pen, image: View, height: Whole, width: Whole) -> None:
    with pen.loop(image.length("channel/8")) as g:
        clear_border(pen, image[g], height, width)


# ---------------------------------------------------------------------------------------------- weight gradient
@compiled(
    d=MAP, a=MAP, code=CODES, x=IMAGES, padded=PADDED, dz="column 8", patches=f"patches {PATCH}",
    sums=f"channel {PATCH}", part="1 channel", total=f"channel {PATCH}", total_dz="1 channel",
)  # fmt: skip
def gated_patch_sums(
    pen: Pen, d: View, a: View, code: View, x: View, colours: Whole, padded: View, dz: View, patches: View, sums: View,
    part: View, total: View, total_dz: View,
) -> None:  # fmt: skip
    """Adds Σ dz · patch [channels, 32], of which the first 9 · colours count, and Σ dz, with dz = [a > 0] d."""
    height, width = code.length("row"), code.length("column")
    with pen.loop(x.length("image")) as i:
        pitch = _pad(pen, x[i], colours, padded)
        with pen.loop(height) as r:
            with pen.loop(width) as s:
                for k in range(4):
                    start = (r * 2 + k // 2) * pitch + (s * 2 + k % 2) * colours
                    _copy_patch(padded, start, pitch, colours * 3, patches, s * 4 + k)
            with pen.loop(code.length("channel/8")) as g:
                _gate_row(pen, d[i, g, r + 1], a[i, g, r + 1], dz, part, g * LANES)
                with pen.loop(LANES, 2) as lane:
                    _add_patches(pen, dz, code[i, g, r], lane, patches, sums, g * LANES + lane)
        flush(pen, part, total_dz)
        flush(pen, sums, total)


def _gate_row(pen: Pen, d: View, a: View, dz: View, sums: View, channel: Whole) -> None:
    """A row of dz = [a > 0] d; adds Σ dz to sums."""
    total = Variable(sums.load(0, channel))
    with pen.loop(dz.length("column")) as s:
        value = d.load(s + 1).where(a.load(s + 1).above(0))
        dz.store(value, s)
        total.add(value)
    sums.store(total.now, 0, channel)


def _copy_patch(x: View, start: Whole, pitch: Whole, across: Whole, to: View, place: Whole) -> None:
    """The 3×3 patch of an image as 3 · across numbers in a row; what is copied too much is written over or not read."""
    flat = to.seen_as([("numbers", to.length("patches") * PATCH, 1)])
    for k in range(3):
        for v in range(2):
            flat.store(
                x.load(start + pitch * k + v * LANES), place * PATCH + across * k + v * LANES
            )


def _add_patches(
    pen: Pen, dz: View, code: View, lane: Whole, x: View, sums: View, channel: Whole
) -> None:
    """For two channels, sums += Σ over a row of windows of dz · patch: of a window's four patches that of the code."""
    vectors, each = range(PATCH // LANES), range(2)
    totals = [[Variable(sums.load(channel + c, v * LANES)) for v in vectors] for c in each]
    with pen.loop(dz.length("column")) as s:
        for c in each:
            patch, factor = s * 4 + code.whole(s, lane + c), dz.broadcast(s, lane + c)
            for v, total in zip(vectors, totals[c], strict=True):
                total.add(factor * x.load(patch, v * LANES))
    for c, row in zip(each, totals, strict=True):
        for v, total in zip(vectors, row, strict=True):
            sums.store(total.now, channel + c, v * LANES)
