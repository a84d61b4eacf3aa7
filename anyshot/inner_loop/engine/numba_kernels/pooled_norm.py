"""What happens at the pooled places of a block of layers 2–4: normalisation, ReLU, and their other passes.

``height`` and ``width`` say how many of the pooled places count. Sums run in the arrays' own type within an image and
in float64 over images.
"""

from __future__ import annotations

from anyshot.inner_loop.engine.numba_kernels.codegen import LANES, Pen, Variable, View, Whole
from anyshot.inner_loop.engine.numba_kernels.compile import compiled

MAP = "image channel/8 tall wide 8"  #: a block's output and what is like it, with its border
POOLED = "image channel/8 high broad 8"  #: p and what is like it
CHANNELS = "channel"


def clear_border(pen: Pen, plane: View, height: Whole, width: Whole) -> None:
    """Zeros round the height × width places in the middle of [tall, wide, 8]."""
    tall, wide, zero = plane.length("tall"), plane.length("wide"), plane.zero()
    with pen.loop(wide) as s:
        plane.store(zero, 0, s)
    with pen.loop(tall - height - 1) as r, pen.loop(wide) as s:
        plane.store(zero, r + height + 1, s)
    with pen.loop(height) as r:
        plane.store(zero, r + 1, 0)
        with pen.loop(wide - width - 1) as s:
            plane.store(zero, r + 1, s + width + 1)


def flush(pen: Pen, sums: View, total: View) -> None:
    """total += sums, in float64; sums = 0."""
    rows, channels = sums.axes[0][1], sums.axes[1][1]
    with pen.loop(rows) as k, pen.loop(channels, LANES) as c:
        total.store(total.load(k, c) + sums.load(k, c).wide(), k, c)
        sums.store(sums.zero(), k, c)


@compiled(p=POOLED, slope=CHANNELS, offset=CHANNELS, a=MAP)
def affine_relu(
    pen: Pen, p: View, slope: View, offset: View, height: Whole, width: Whole, a: View
) -> None:
    """a = relu(slope p + offset), with its border."""
    with pen.loop(a.length("image")) as i, pen.loop(a.length("channel/8")) as g:
        times, plus = slope.load(g * LANES), offset.load(g * LANES)
        with pen.loop(height) as r:
            large, small = a[i, g, r + 1], p[i, g, r]
            with pen.loop(width) as s:
                z = plus + times * small.load(s)
                large.store(z.where(z.above(0)), s + 1)
        clear_border(pen, a[i, g], height, width)


@compiled(
    d=MAP, a=MAP, p=POOLED, mean=CHANNELS, dz=POOLED, sums=f"2 {CHANNELS}", total=f"2 {CHANNELS}"
)
def gated_sums(
    pen: Pen,
    d: View,
    a: View,
    p: View,
    mean: View,
    height: Whole,
    width: Whole,
    dz: View,
    sums: View,
    total: View,
) -> None:
    """dz = [a > 0] d, zero beyond height × width; adds Σ dz (p − mean) and Σ dz to total [2, channels]."""
    with pen.loop(a.length("image")) as i:
        with pen.loop(a.length("channel/8")) as g:
            c, plane = g * LANES, dz[i, g]
            centre, s1, s0 = mean.load(c), Variable(sums.zero()), Variable(sums.zero())
            with pen.loop(height) as r:
                upstream, gate, value, to = d[i, g, r + 1], a[i, g, r + 1], p[i, g, r], plane[r]
                with pen.loop(width) as s:
                    passed = upstream.load(s + 1).where(gate.load(s + 1).above(0))
                    to.store(passed, s)
                    s1.add(passed * (value.load(s) - centre))
                    s0.add(passed)
                with pen.loop(to.length("broad") - width) as s:
                    to.store(to.zero(), s + width)
            with pen.loop(plane.length("high") - height) as r, pen.loop(plane.length("broad")) as s:
                plane.store(plane.zero(), r + height, s)
            sums.store(s1.now, 0, c)
            sums.store(s0.now, 1, c)
        flush(pen, sums, total)


@compiled(
    pd=POOLED, a=MAP, slope=CHANNELS, p=POOLED, slope_p=CHANNELS, offset=CHANNELS, dz=POOLED, scale=CHANNELS, xd=MAP,
    sums=f"1 {CHANNELS}", total=f"1 {CHANNELS}",
)  # fmt: skip
def gated_affine(
    pen: Pen, pd: View, a: View, slope: View, p: View, slope_p: View, offset: View, dz: View, scale: View,
    height: Whole, width: Whole, xd: View, sums: View, total: View,
) -> None:  # fmt: skip
    """x′ = scale x̂′ with its border, x̂′ = [a > 0] (slope p′ + slope_p p + offset); adds Σ dz x̂′ to total."""
    with pen.loop(a.length("image")) as i:
        with pen.loop(a.length("channel/8")) as g:
            c, found = g * LANES, Variable(sums.zero())
            first, second, plus, factor = (
                slope.load(c),
                slope_p.load(c),
                offset.load(c),
                scale.load(c),
            )
            with pen.loop(height) as r:
                to, gate, tangent, value, weight = (
                    xd[i, g, r + 1],
                    a[i, g, r + 1],
                    pd[i, g, r],
                    p[i, g, r],
                    dz[i, g, r],
                )
                with pen.loop(width) as s:
                    z = plus + first * tangent.load(s) + second * value.load(s)
                    z = z.where(gate.load(s + 1).above(0))
                    to.store(factor * z, s + 1)
                    found.add(z * weight.load(s))
            sums.store(found.now, 0, c)
            clear_border(pen, xd[i, g], height, width)
        flush(pen, sums, total)
