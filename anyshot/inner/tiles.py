"""Winograd's tiles, compiled: the Toom–Cook matrices and the four linear maps between images and tiles.

The formulas are in :mod:`.winograd`, which gives these loops their tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from anyshot.inner.jit import Array, compiled

OUT, FREQUENCIES = 4, 36  #: side of an output tile; places of an input tile


def toom_cook(points: list[float], out: int = OUT) -> tuple[Array, Array, Array]:
    """Aᵀ [out, n], G [n, 3] and Bᵀ [n, n] of F(out, 3) for n − 1 finite points and ∞.

    >>> At, G, Bt = toom_cook([0, 1, -1], out=2)
    >>> d, g = np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7])
    >>> At @ ((G @ g) * (Bt @ d))  # 1·5 + 2·6 + 3·7, 2·5 + 3·6 + 4·7
    array([38., 56.])
    """
    n, p = out + 2, np.array(points, float)
    At, G, Bt = np.zeros((out, n)), np.zeros((n, 3)), np.zeros((n, n))
    for j in range(n - 1):
        others = np.delete(p, j)
        At[:, j] = p[j] ** np.arange(out)
        G[j] = p[j] ** np.arange(3) / np.prod(p[j] - others)
        Bt[j, : n - 1] = np.poly(others)[::-1]
    At[-1, -1] = G[-1, -1] = 1
    Bt[-1] = np.poly(p)[::-1]
    return At, G, Bt


AT, G, BT = toom_cook([0, 2 / 3, -2 / 3, 3 / 2, -3 / 2])


def tile_map(left: Array, accumulate: bool = False) -> Callable[..., Any]:
    """The function tile ↦ left · tile · leftᵀ (added to what is there, if ``accumulate``), for all channels of a tile.

    ``f(to, start, row, column, source, start, row, column, channels)`` with starts and strides in elements; channels
    are next to each other in memory and a multiple of 8. Vector instructions are written out, since LLVM does not find
    them by itself among 36 places read and 36 written.
    """
    left = np.where(np.abs(left) < 1e-12, 0, left)
    outs, ins = left.shape

    @intrinsic
    def apply(_: Any, to: Any, a: Any, b: Any, c: Any, source: Any, d: Any, e: Any, f: Any, channels: Any) -> Any:
        place = (types.intp,) * 3
        return types.void(to, *place, source, *place, types.intp), generate

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        (to, source), n = (signature.args[i] for i in (0, 4)), arguments[8]
        lanes = 8 if to.dtype == types.float32 else 4
        vector = ir.VectorType(context.get_value_type(to.dtype), lanes)
        bases = [context.make_array(t)(context, build, arguments[i]).data for t, i in ((to, 0), (source, 4))]

        def place(which: int, channel: Any, r: int, s: int) -> Any:
            start, row, column = arguments[1 + 4 * which : 4 + 4 * which]
            steps = [build.mul(row, n.type(r)), build.mul(column, n.type(s)), channel]
            return build.bitcast(
                build.gep(bases[which], [functools.reduce(build.add, steps, start)]), vector.as_pointer()
            )

        def load(*where: Any) -> Any:
            value = build.load(place(*where))
            value.align = to.dtype.bitwidth // 8
            return value

        def combine(weights: Array, values: Sequence[Any]) -> Any:
            total = None
            for weight, value in zip(weights, values, strict=True):
                if weight:
                    factor = ir.Constant(vector, [float(weight)] * lanes)
                    term = value if weight == 1 else build.fmul(value, factor, flags=["contract"])
                    total = term if total is None else build.fadd(total, term, flags=["contract"])
            return total

        with cgutils.for_range_slice(build, n.type(0), n, n.type(lanes)) as (channel, _):
            tile = [[load(1, channel, r, s) for s in range(ins)] for r in range(ins)]
            half = [[combine(w, column) for column in zip(*tile, strict=True)] for w in left]
            for r in range(outs):
                for s in range(outs):
                    value = combine(left[s], half[r])
                    if accumulate:
                        value = build.fadd(value, load(0, channel, r, s))
                    build.store(value, place(0, channel, r, s)).align = to.dtype.bitwidth // 8
        return context.get_dummy_value()

    return apply


_B_left, _A_left = tile_map(BT), tile_map(AT)  # Bᵀ · B and Aᵀ · A
_A_right, _B_right = tile_map(AT.T), tile_map(BT.T, accumulate=True)  # A · Aᵀ and, adding, B · Bᵀ


@compiled
def _copy(source: Array, to: Array, source_edge: int, to_edge: int) -> None:
    """The smaller image between two padded by these edges at the top and left."""
    h, w = min(source.shape[0], to.shape[0]), min(source.shape[1], to.shape[1])
    for r in range(h):
        for s in range(w):
            for c in range(to.shape[2]):
                to[r + to_edge, s + to_edge, c] = source[r + source_edge, s + source_edge, c]


@compiled
def input_tiles(x: Array, V: Array) -> None:
    """V = Bᵀ d B for the overlapping tiles d of each image [n, h, w, c], zero outside; V is [36, tiles, c]."""
    n, h, w, c = x.shape
    rows, columns, plane = (h + 3) // 4, (w + 3) // 4, V.shape[1] * c
    padded = np.zeros((4 * rows + 2, 4 * columns + 2, c), x.dtype)
    pitch, t = padded.shape[1] * c, 0
    for i in range(n):
        _copy(x[i], padded, 0, 1)
        for r in range(rows):
            for s in range(columns):
                _B_left(V, t * c, 6 * plane, plane, padded, 4 * (r * pitch + s * c), pitch, c, c)
                t += 1


@compiled
def input_cotangent(dV: Array, dx: Array) -> None:
    """The transpose of :func:`input_tiles`: dx = overlapping sum of B dV Bᵀ."""
    n, h, w, c = dx.shape
    rows, columns, plane = (h + 3) // 4, (w + 3) // 4, dV.shape[1] * c
    padded = np.zeros((4 * rows + 2, 4 * columns + 2, c), dx.dtype)
    pitch, t = padded.shape[1] * c, 0
    for i in range(n):
        padded[:] = 0
        for r in range(rows):
            for s in range(columns):
                _B_right(padded, 4 * (r * pitch + s * c), pitch, c, dV, t * c, 6 * plane, plane, c)
                t += 1
        _copy(padded, dx[i], 1, 0)


@compiled
def output_tiles(M: Array, y: Array) -> None:
    """Y = Aᵀ M A for the tiles of each image y [n, h, w, c]."""
    n, h, w, c = y.shape
    rows, columns, plane, whole = (h + 3) // 4, (w + 3) // 4, M.shape[1] * c, h % 4 + w % 4 == 0
    padded = np.zeros((1, 1, 1) if whole else (4 * rows, 4 * columns, c), y.dtype)
    t = 0
    for i in range(n):
        to = y[i] if whole else padded
        pitch = to.shape[1] * c
        for r in range(rows):
            for s in range(columns):
                _A_left(to, 4 * (r * pitch + s * c), pitch, c, M, t * c, 6 * plane, plane, c)
                t += 1
        if not whole:
            _copy(padded, y[i], 0, 0)


@compiled
def output_cotangent(D: Array, Z: Array) -> None:
    """The transpose of :func:`output_tiles`: Z = A D Aᵀ."""
    n, h, w, c = D.shape
    rows, columns, plane, whole = (h + 3) // 4, (w + 3) // 4, Z.shape[1] * c, h % 4 + w % 4 == 0
    padded = np.zeros((1, 1, 1) if whole else (4 * rows, 4 * columns, c), D.dtype)
    t = 0
    for i in range(n):
        if not whole:
            _copy(D[i], padded, 0, 0)
        source = D[i] if whole else padded
        pitch = source.shape[1] * c
        for r in range(rows):
            for s in range(columns):
                _A_right(Z, t * c, 6 * plane, plane, source, 4 * (r * pitch + s * c), pitch, c, c)
                t += 1
