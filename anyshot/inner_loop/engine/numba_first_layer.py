"""Layer 1 of the engine by compiled kernels; :mod:`.numba_ops` re-exports these operations."""

from __future__ import annotations

import numpy as np

from anyshot.inner_loop.engine.numba_kernels import first_layer
from anyshot.inner_loop.engine.numba_kernels.compile import Array
from anyshot.inner_loop.engine.numba_kernels.values import LANES
from anyshot.inner_loop.engine.numba_layouts import Activation, Images, empty_activation
from anyshot.inner_loop.engine.partition import map_over_parts, total

#: sums for the first, middle and last row (or column) of a patch, from sums over all rows, the
#: first row and the last row: the first row of a patch never reaches the image's last row, etc.
EDGES = np.array([[1.0, 0, -1], [1, 0, 0], [1, -1, 0]])


def patch_moments(x: Images) -> tuple[Array, Array]:
    """:func:`.torch_ops.patch_moments`, in the order of weights here: rows, columns, colours.

    The pixel (a, b) of a patch takes all positions in the image except its last row if a = 0 and
    its first row if a = 2; the same holds for columns. So all pairs of pixels at the same distance
    share one sum over the image, minus its edges.
    """

    def run(part: slice) -> tuple[Array, Array]:
        T = np.zeros((3, 3, x.colours, 3, first_layer.REACH))
        single = np.zeros((3, 3, x.colours))
        first_layer.patch_sums(x.values[part], x.padded_buffer(np.float64), T, single)
        return T, single

    T, single = map(
        total,
        zip(*map_over_parts(run, len(x.values), x.multiplications(9 * x.colours)), strict=True),
    )
    dtype, c, pixels = x.values.dtype, x.colours, x.values.size // x.colours
    m = np.einsum("ai,bj,ijc->abc", EDGES, EDGES, single) / pixels
    T = np.einsum("ai,bj,ijcdk->abcdk", EDGES, EDGES, T) / pixels
    M = np.zeros((3, 3, c, 3, 3, c))
    for a, b, other in np.ndindex(3, 3, 3):
        across = (other - b + 2) * c
        for below in range(3 - a):
            M[a, b, :, a + below, other] = T[a, b, :, below, across : across + c]
            M[a + below, other, :, a, b] = M[a, b, :, a + below, other].T
    S = M.reshape(9 * c, 9 * c) - np.outer(m, m)
    return m[None].astype(dtype), S.astype(dtype)


def _to_filter_layout(V: Array) -> Array:
    """[3, 3 · colours, channels]."""
    return np.ascontiguousarray(V.transpose(1, 2, 3, 0)).reshape(3, -1, len(V))


def first_forward(x: Images, V: Array, offset: Array) -> tuple[Activation, Array]:
    """:func:`.torch_ops.first_forward`."""
    n, height, numbers = x.values.shape
    a = empty_activation(n, len(V) // LANES, height // 2, numbers // x.colours // 2, x.values.dtype)
    code = np.empty((n, len(V) // LANES, a.height, a.width, LANES), np.uint8)
    V = _to_filter_layout(V)

    def run(i: slice) -> None:
        first_layer.forward(
            x.values[i], x.colours, V, offset, a.values[i], code[i], x.padded_buffer()
        )

    map_over_parts(run, n, x.multiplications(len(offset)))
    return a, code


def first_tangent(x: Images, V: Array, offset: Array, a: Activation, code: Array) -> Activation:
    """:func:`.torch_ops.first_tangent`."""
    ad, V = a.empty_like(), _to_filter_layout(V)

    def run(i: slice) -> None:
        first_layer.tangent(
            x.values[i], x.colours, V, offset, a.values[i], code[i], ad.values[i], x.padded_buffer()
        )

    map_over_parts(run, len(a), x.multiplications(len(offset)))
    return ad


def gated_correlation(
    d: Activation, a: Activation, code: Array, x: Images, W: Array
) -> tuple[Array, Array]:
    """:func:`.torch_ops.gated_correlation`, from the maxima alone."""
    dtype, channels, width = W.dtype, len(W), a.width

    def run(i: slice) -> tuple[Array, Array]:
        dz = np.empty((width, LANES), dtype)
        patches = np.empty((4 * width + 1, first_layer.PATCH), dtype)
        sums = np.zeros((channels, first_layer.PATCH), dtype)
        part = np.zeros((1, channels), dtype)
        G, Sb = np.zeros(sums.shape), np.zeros(part.shape)
        first_layer.gated_patch_sums(
            d.values[i], a.values[i], code[i], x.values[i], x.colours, x.padded_buffer(), dz,
            patches, sums, part, G, Sb,
        )  # fmt: skip
        return G, Sb

    G, Sb = map(
        total, zip(*map_over_parts(run, len(a), x.multiplications(channels) // 4), strict=True)
    )
    return Sb[0].astype(dtype), G[:, : W[0].size].astype(dtype).reshape(W.shape)
