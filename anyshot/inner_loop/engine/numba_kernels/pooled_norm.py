"""Normalisation and ReLU of the pooled outputs of layers 2–4: forward, backward and tangents.

``height`` and ``width`` are the valid size of the pooled output. Sums have the arrays' type within
an image and float64 over images.
"""

from __future__ import annotations

from anyshot.inner_loop.engine.numba_kernels.array_view import ArrayView
from anyshot.inner_loop.engine.numba_kernels.codegen import Builder
from anyshot.inner_loop.engine.numba_kernels.compile import kernel
from anyshot.inner_loop.engine.numba_kernels.values import LANES, Accumulator, Int

#: a block's output, its tangent and cotangent, with a border
MAP = "image channel/8 padded_height padded_width 8"
POOLED = "image channel/8 tiled_height tiled_width 8"  #: p, its tangent and the cotangent dz
CHANNELS = "channel"


def zero_border(builder: Builder, plane: ArrayView, height: Int, width: Int) -> None:
    """Zeros around the valid height × width of a plane [padded_height, padded_width, 8]."""
    padded_height = plane.length("padded_height")
    padded_width = plane.length("padded_width")
    zero = plane.zero()
    with builder.loop(padded_width) as s:
        plane.store(zero, 0, s)
    with builder.loop(padded_height - height - 1) as r, builder.loop(padded_width) as s:
        plane.store(zero, r + height + 1, s)
    with builder.loop(height) as r:
        plane.store(zero, r + 1, 0)
        with builder.loop(padded_width - width - 1) as s:
            plane.store(zero, r + 1, s + width + 1)


def flush_sums(builder: Builder, sums: ArrayView, total: ArrayView) -> None:
    """total += sums, in float64; sums = 0."""
    rows, channels = sums.axes[0][1], sums.axes[1][1]
    with builder.loop(rows) as k, builder.loop(channels, LANES) as c:
        total.store(total.load(k, c) + sums.load(k, c).to_double(), k, c)
        sums.store(sums.zero(), k, c)


@kernel(p=POOLED, slope=CHANNELS, offset=CHANNELS, a=MAP)
def affine_relu(
    builder: Builder, p: ArrayView, slope: ArrayView, offset: ArrayView, height: Int, width: Int,
    a: ArrayView,
) -> None:  # fmt: skip
    """a = relu(slope p + offset), with its border."""
    with builder.loop(a.length("image")) as i, builder.loop(a.length("channel/8")) as g:
        times, plus = slope.load(g * LANES), offset.load(g * LANES)
        with builder.loop(height) as r:
            large, small = a[i, g, r + 1], p[i, g, r]
            with builder.loop(width) as s:
                z = plus + times * small.load(s)
                large.store(z.where(z.greater(0)), s + 1)
        zero_border(builder, a[i, g], height, width)


@kernel(
    d=MAP, a=MAP, p=POOLED, mean=CHANNELS, dz=POOLED, sums=f"2 {CHANNELS}", total=f"2 {CHANNELS}"
)
def gated_sums(
    builder: Builder, d: ArrayView, a: ArrayView, p: ArrayView, mean: ArrayView, height: Int,
    width: Int, dz: ArrayView, sums: ArrayView, total: ArrayView,
) -> None:  # fmt: skip
    """dz = [a > 0] d inside height × width, 0 outside; add Σ dz (p − mean) and Σ dz to total."""
    with builder.loop(a.length("image")) as i:
        with builder.loop(a.length("channel/8")) as g:
            c, plane = g * LANES, dz[i, g]
            centre, s1, s0 = mean.load(c), Accumulator(sums.zero()), Accumulator(sums.zero())
            with builder.loop(height) as r:
                upstream, gate, value, to = d[i, g, r + 1], a[i, g, r + 1], p[i, g, r], plane[r]
                with builder.loop(width) as s:
                    passed = upstream.load(s + 1).where(gate.load(s + 1).greater(0))
                    to.store(passed, s)
                    s1.add(passed * (value.load(s) - centre))
                    s0.add(passed)
                with builder.loop(to.length("tiled_width") - width) as s:
                    to.store(to.zero(), s + width)
            with (
                builder.loop(plane.length("tiled_height") - height) as r,
                builder.loop(plane.length("tiled_width")) as s,
            ):
                plane.store(plane.zero(), r + height, s)
            sums.store(s1.current, 0, c)
            sums.store(s0.current, 1, c)
        flush_sums(builder, sums, total)


@kernel(
    pd=POOLED, a=MAP, slope=CHANNELS, p=POOLED, slope_p=CHANNELS, offset=CHANNELS, dz=POOLED,
    scale=CHANNELS, xd=MAP, sums=f"1 {CHANNELS}", total=f"1 {CHANNELS}",
)  # fmt: skip
def gated_affine(
    builder: Builder, pd: ArrayView, a: ArrayView, slope: ArrayView, p: ArrayView,
    slope_p: ArrayView, offset: ArrayView, dz: ArrayView, scale: ArrayView, height: Int,
    width: Int, xd: ArrayView, sums: ArrayView, total: ArrayView,
) -> None:  # fmt: skip
    """x′ = scale t, t = [a > 0] (slope p′ + slope_p p + offset); add Σ dz t to total."""
    with builder.loop(a.length("image")) as i:
        with builder.loop(a.length("channel/8")) as g:
            c = g * LANES
            total_c = Accumulator(sums.zero())
            first, second = slope.load(c), slope_p.load(c)
            plus, factor = offset.load(c), scale.load(c)
            with builder.loop(height) as r:
                to, gate = xd[i, g, r + 1], a[i, g, r + 1]
                tangent, value, weight = pd[i, g, r], p[i, g, r], dz[i, g, r]
                with builder.loop(width) as s:
                    z = plus + first * tangent.load(s) + second * value.load(s)
                    z = z.where(gate.load(s + 1).greater(0))
                    to.store(factor * z, s + 1)
                    total_c.add(z * weight.load(s))
            sums.store(total_c.current, 0, c)
            zero_border(builder, xd[i, g], height, width)
        flush_sums(builder, sums, total)
