"""Layer 1's weight gradient from the pooling maxima alone, compiled: a quarter of a dense correlation's work.

scatter(dz) is zero but at one place of each 2×2 window, so  G_c = Σ_windows dz_c · (3×3 patch of x around the maximum).
No scattered array is formed. The sums of two channels stay in registers along a row of windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from anyshot.inner.jit import Array, compiled

ROW = 16  #: numbers read of each of a patch's three rows, of which up to nine (three pixels of three colours) count


def _generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
    sums, dz, code, shift, x = (
        context.make_array(t)(context, build, v) for t, v in zip(signature.args[:5], arguments[:5], strict=True)
    )
    channel, windows, start, step, pitch = arguments[5:]
    element = signature.args[0].dtype
    lanes = 8 if element == types.float32 else 4
    vector, whole = ir.VectorType(context.get_value_type(element), lanes), channel.type
    channels = build.extract_value(dz.shape, 1)
    parts = [(j, lane) for j in range(3) for lane in range(0, 9, lanes)]  # rows of a patch, by whole vectors

    def at(base: Any, *offsets: Any) -> Any:
        place = offsets[0]
        for offset in offsets[1:]:
            place = build.add(place, offset)
        return build.gep(base, [place])

    def load(pointer: Any) -> Any:
        value = build.load(build.bitcast(pointer, vector.as_pointer()))
        value.align = element.bitwidth // 8
        return value

    totals = []  # (two channels) × (parts of a patch); LLVM keeps them in registers
    for which in range(2):
        row = build.mul(build.add(channel, whole(which)), whole(3 * ROW))
        for j, lane in parts:
            pointer = at(sums.data, row, whole(j * ROW + lane))
            total = cgutils.alloca_once(build, vector)
            build.store(load(pointer), total)
            totals.append((total, pointer))
    with cgutils.for_range(build, windows) as loop:
        for which in range(2):
            here = build.add(build.mul(loop.index, channels), build.add(channel, whole(which)))
            place = build.zext(build.load(at(code.data, here)), whole)
            patch = build.add(build.add(start, build.mul(step, loop.index)), build.load(at(shift.data, place)))
            lane0 = build.insert_element(ir.Constant(vector, ir.Undefined), build.load(at(dz.data, here)), whole(0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            factor = build.shuffle_vector(lane0, ir.Constant(vector, ir.Undefined), zeros)
            for i, (j, lane) in enumerate(parts):
                total, _ = totals[which * len(parts) + i]
                value = load(at(x.data, patch, build.mul(pitch, whole(j)), whole(lane)))
                product = build.fmul(factor, value, flags=["contract"])
                build.store(build.fadd(build.load(total), product, flags=["contract"]), total)
    for total, pointer in totals:
        build.store(build.load(total), build.bitcast(pointer, vector.as_pointer())).align = element.bitwidth // 8
    return context.get_dummy_value()


def _typed(_: Any, sums: Any, dz: Any, code: Any, shift: Any, x: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    return types.void(sums, dz, code, shift, x, *(types.intp,) * 5), _generate


#: ``_add_patches(sums, dz, code, shift, x, channel, windows, start, step, pitch)``: for two channels from this one on,
#: sums[channel] += Σ over a row of windows of dz · patch. Window p of dz and code [windows, channels] has its patch in
#: the flat padded image x at start + step p + shift[code], three rows a pitch apart.
_add_patches: Callable[..., Any] = intrinsic(_typed)


@compiled
def gated_patch_sums(d: Array, more: Array, a: Array, code: Array, x: Array) -> Array:
    """[channels, 28]: Σ dz · patch (rows, columns, colours) and, last, Σ dz, with dz = [a > 0] (d + more).

    An empty ``more`` is none. Channels are even in number, colours (of x [n, height, width, colours]) at most three.
    """
    (n, h, w, channels), one = d.shape, d.dtype.type
    height, width, colours = x.shape[1], x.shape[2], x.shape[3]
    pitch = (width + 2) * colours
    padded = np.zeros((height + 2) * pitch + ROW, d.dtype)
    shift = np.array([0, colours, pitch, pitch + colours])
    sums, dz, part = (
        np.zeros((channels, 3, ROW), d.dtype),
        np.zeros((w, channels), d.dtype),
        np.zeros(channels, d.dtype),
    )
    total = np.zeros((channels, 28))
    for i in range(n):
        for r in range(height):
            for s in range(width):
                for e in range(colours):
                    padded[(r + 1) * pitch + (s + 1) * colours + e] = x[i, r, s, e]
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    dz[s, c] = d[i, r, s, c]
                if len(more):
                    for c in range(channels):
                        dz[s, c] += more[i, r, s, c]
                for c in range(channels):
                    dz[s, c] *= one(a[i, r, s, c] > 0)
                    part[c] += dz[s, c]
            for c in range(0, channels, 2):
                _add_patches(sums, dz, code[i, r], shift, padded, c, w, 2 * r * pitch, 2 * colours, pitch)
        for c in range(channels):
            for j in range(3):
                for e in range(3 * colours):
                    total[c, 3 * colours * j + e] += sums[c, j, e]
                for e in range(ROW):
                    sums[c, j, e] = 0
            total[c, 27] += part[c]
            part[c] = 0
    return total
