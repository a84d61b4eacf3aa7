"""What happens at the pooled places of a block of layers 2–4, compiled: normalisation, ReLU, and their other passes.

The memory is that of :mod:`.passes`. Sums run in the arrays' own type within an image and in float64 over images.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anyshot.inner.compiled.jit import Array, compiled
from anyshot.inner.compiled.vectors import LANES, Pen, written_out


@written_out
def _affine_relu_row(pen: Pen, a: Any, i: Any, p: Any, j: Any, slope: Any, offset: Any, channel: Any, n: Any) -> None:
    """n pixels of a = relu(slope p + offset)."""
    times, plus = pen.load(slope, channel), pen.load(offset, channel)
    with pen.loop(n) as s:
        z = plus + times * pen.load(p, pen.place(j, (s, LANES)))
        pen.store(z.where(z.above(0)), a, pen.place(i, (s, LANES)))


@written_out
def _gated_sums_row(
    pen: Pen, dz: Any, j: Any, d: Any, a: Any, i: Any, p: Any, mean: Any, sums: Any, channel: Any, channels: Any, n: Any
) -> None:
    """n pixels of dz = [a > 0] d; adds Σ dz (p − mean) and Σ dz to sums [2, channels]."""
    centre, second = pen.load(mean, channel), pen.place(channel, (1, channels))
    s1, s0 = pen.variable(pen.load(sums, channel)), pen.variable(pen.load(sums, second))
    with pen.loop(n) as s:
        large, small = pen.place(i, (s, LANES)), pen.place(j, (s, LANES))
        value = pen.load(d, large).where(pen.load(a, large).above(0))
        pen.store(value, dz, small)
        s1.add(value * (pen.load(p, small) - centre))
        s0.add(value)
    pen.store(s1.now, sums, channel)
    pen.store(s0.now, sums, second)


@written_out
def _gated_affine_row(
    pen: Pen, xd: Any, a: Any, i: Any, pd: Any, p: Any, dz: Any, j: Any, slope: Any, slope_p: Any, offset: Any,
    scale: Any, sums: Any, channel: Any, n: Any,
) -> None:  # fmt: skip
    """n pixels of x̂′ = [a > 0] (slope p′ + slope_p p + offset), as x′ = scale x̂′; adds Σ dz x̂′ to sums."""
    first, second, plus = pen.load(slope, channel), pen.load(slope_p, channel), pen.load(offset, channel)
    factor, total = pen.load(scale, channel), pen.variable(pen.load(sums, channel))
    with pen.loop(n) as s:
        large, small = pen.place(i, (s, LANES)), pen.place(j, (s, LANES))
        z = plus + first * pen.load(pd, small) + second * pen.load(p, small)
        z = z.where(pen.load(a, large).above(0))
        pen.store(factor * z, xd, large)
        total.add(z * pen.load(dz, small))
    pen.store(total.now, sums, channel)


@compiled
def clear_border(image: Array, height: int, width: int) -> None:
    """Zeros round the height × width places in the middle of an image [channels / 8, rows, columns, 8]."""
    blocks, _, wide, _ = image.shape
    for g in range(blocks):
        image[g, 0] = 0
        image[g, height + 1 :] = 0
        for r in range(1, height + 1):
            for lane in range(LANES):
                image[g, r, 0, lane] = 0
            for s in range(width + 1, wide):
                for lane in range(LANES):
                    image[g, r, s, lane] = 0


@compiled
def affine_relu(p: Array, slope: Array, offset: Array, height: int, width: int, a: Array) -> None:
    """a = relu(slope p + offset), with its border."""
    n, blocks, tall, wide, _ = a.shape
    for i in range(n):
        for g in range(blocks):
            for r in range(height):
                large = (((i * blocks + g) * tall + r + 1) * wide + 1) * LANES
                small = ((i * blocks + g) * p.shape[2] + r) * p.shape[3] * LANES
                _affine_relu_row(a, large, p, small, slope, offset, g * LANES, width)
        clear_border(a[i], height, width)


@compiled
def gated_sums(d: Array, a: Array, p: Array, mean: Array, height: int, width: int, dz: Array) -> Array:
    """dz = [a > 0] d, zero beyond height × width; Σ dz (p − mean) and Σ dz [2, channels]."""
    n, blocks, tall, wide, _ = a.shape
    rows, columns, channels = dz.shape[2], dz.shape[3], blocks * LANES
    total, sums = np.zeros((2, channels)), np.zeros((2, channels), d.dtype)
    for i in range(n):
        for g in range(blocks):
            for r in range(height):
                large = (((i * blocks + g) * tall + r + 1) * wide + 1) * LANES
                small = ((i * blocks + g) * rows + r) * columns * LANES
                _gated_sums_row(dz, small, d, a, large, p, mean, sums, g * LANES, channels, width)
                for s in range(width, columns):
                    dz[i, g, r, s] = 0
            dz[i, g, height:] = 0
        for k in range(2):
            for c in range(channels):
                total[k, c] += sums[k, c]
                sums[k, c] = 0
    return total


@compiled
def gated_affine(
    pd: Array, a: Array, slope: Array, p: Array, slope_p: Array, offset: Array, dz: Array, scale: Array, height: int,
    width: int, xd: Array,
) -> Array:  # fmt: skip
    """x′ = scale x̂′ with its border, x̂′ = [a > 0] (slope p′ + slope_p p + offset); Σ dz x̂′ [channels]."""
    n, blocks, tall, wide, _ = a.shape
    total, sums = np.zeros(blocks * LANES), np.zeros(blocks * LANES, pd.dtype)
    for i in range(n):
        for g in range(blocks):
            for r in range(height):
                large = (((i * blocks + g) * tall + r + 1) * wide + 1) * LANES
                small = ((i * blocks + g) * p.shape[2] + r) * p.shape[3] * LANES
                _gated_affine_row(xd, a, large, pd, p, dz, small, slope, slope_p, offset, scale, sums, g * LANES, width)
        for c in range(blocks * LANES):
            total[c] += sums[c]
            sums[c] = 0
        clear_border(xd[i], height, width)
    return total
