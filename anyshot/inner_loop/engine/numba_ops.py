"""The functions of :mod:`.ops` as compiled loops (Numba, an optional extra), on a CPU.

A loop runs on one thread, without Python's lock: workers of :func:`anyshot.core.parallel.threads.map_tasks` run theirs at the same
time, and those without a task help with the parts (:mod:`.parts`) of a large set of images. Numba keeps the compiled
loops on disk. What lies between two layers is not a tensor here but an array whose last axis are eight channels
(:mod:`.compiled.passes` says how), so channels come in sixteens. The place of a window's maximum takes one byte, 0..3
for its top left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyshot.inner_loop.engine.numba_kernels import conv_layers, first_layer, pooled_norm
from anyshot.inner_loop.engine.numba_kernels.codegen import LANES
from anyshot.inner_loop.engine.numba_kernels.compile import Array, folder, forget_old, kept
from anyshot.inner_loop.engine.numba_kernels.matmul import VECTORS
from anyshot.inner_loop.engine.numba_kernels.winograd import FREQUENCIES, NUMBERS, OUT, PLACE, ROWS
from anyshot.inner_loop.engine.partition import in_parts, total
from anyshot.models.network import EPS

log = logging.getLogger(__name__)
POOLED = (
    16  #: multiplications in the time that a number at a pooled place takes: this is about memory
)


def announce() -> None:
    """Say so in the log if the loops will have to be compiled first."""
    if not kept(conv_layers.forward):
        forget_old(conv_layers.forward)
        what = "some 3 seconds of an idle core for adaptation, 3 more for meta-gradients"
        log.warning(
            "Compiling the engine's loops on first use, once: %s; kept in %s.",
            what,
            folder(conv_layers.forward),
        )


MOST = NUMBERS // ROWS  #: channels: four tiles of them must fit in flight


def obstacle(weights: list[Tensor]) -> str | None:
    """Why the loops cannot do convolutions with these weights, as part of a sentence; None if they can."""
    colours, channels = weights[0].shape[1], [len(W) for W in weights]
    odd = [c for c in channels if c % (LANES * VECTORS) or c > MOST]
    if odd:
        return f"convolutions to {odd[0]} channels, where these want multiples of {LANES * VECTORS} up to {MOST}"
    return f"images of {colours} colours, where these want at most 3" if colours > 3 else None


@dataclass
class Map:
    """An activation, or its tangent or cotangent: height × width places inside a border of zeros."""

    values: Array  #: [n, channels / 8, 4 rows + 2, 4 columns + 2, 8]
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.values)

    def like(self) -> Map:
        """Uninitialised memory for another of the same size."""
        return Map(np.empty_like(self.values), self.height, self.width)


def _map(n: int, blocks: int, height: int, width: int, dtype: np.dtype) -> Map:
    rows, columns = -(-height // OUT), -(-width // OUT)
    return Map(
        np.empty((n, blocks, OUT * rows + 2, OUT * columns + 2, LANES), dtype), height, width
    )


def enter(t: Tensor) -> Array:
    """:func:`.ops.enter`: weights become [outputs, 3, 3, inputs]."""
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).contiguous().numpy()


def leave(a: Array) -> Tensor:
    """:func:`.ops.leave`."""
    return torch.from_numpy(a).permute(0, 3, 1, 2) if a.ndim == 4 else torch.from_numpy(a)


def inverse_deviation(variance: Array) -> Array:
    """:func:`.ops.inverse_deviation`."""
    return 1 / np.sqrt(np.maximum(variance, 0) + EPS)


def features(a: Map) -> Tensor:
    """:func:`.ops.features`."""
    inside = a.values[:, :, 1 : a.height + 1, 1 : a.width + 1].transpose(0, 1, 4, 2, 3)
    return torch.from_numpy(inside.reshape(len(a), -1))


def from_features(d: Tensor, a: Map) -> Map:
    """:func:`.ops.from_features`."""
    to, blocks = a.like(), a.values.shape[1]
    inside = d.numpy().reshape(len(a), blocks, LANES, a.height, a.width).transpose(0, 1, 3, 4, 2)
    to.values[:, :, 1 : a.height + 1, 1 : a.width + 1] = (
        inside  # nobody reads the border of a cotangent
    )
    return to


# ---------------------------------------------------------------------------------------------- layer 1
@dataclass
class Images:
    """Images as rows of pixels."""

    values: Array  #: [n, height, width · colours]
    colours: int

    def work(self, channels: int) -> int:
        """Multiplications of a direct convolution of one image to so many channels."""
        return 9 * channels * self.values[0].size

    def padded(self, dtype: Any = None) -> Array:
        """Room for one image with zeros round it, and for what is read beyond."""
        _, height, numbers = self.values.shape
        return np.zeros(
            (height + 4) * (numbers + 2 * self.colours) + 2 * first_layer.REACH,
            dtype or self.values.dtype,
        )


def pictures(x: Tensor) -> Images:
    """:func:`.ops.pictures`."""
    n, colours, height, width = x.shape
    rows = x.permute(
        0, 2, 3, 1
    ).contiguous()  # the loops go by addresses: no gaps, as a cut-out of larger images has
    return Images(rows.view(n, height, width * colours).numpy(), colours)


#: what the first, the middle and the last row (or column) of a patch run over: all, less the first, less the last
EDGES = np.array([[1.0, 0, -1], [1, 0, 0], [1, -1, 0]])


def patch_moments(x: Images) -> tuple[Array, Array]:
    """:func:`.ops.patch_moments`, in the order of weights here: rows, columns, colours.

    The pixel (a, b) of a patch runs over the whole image but for its last row if a = 0 and its first if a = 2, and so
    for columns. So all pairs of pixels that are equally far apart share one sum over the image, less its edges.
    """

    def loop(part: slice) -> tuple[Array, Array]:
        T, single = np.zeros((3, 3, x.colours, 3, first_layer.REACH)), np.zeros((3, 3, x.colours))
        first_layer.patch_sums(x.values[part], x.padded(np.float64), T, single)
        return T, single

    T, single = map(total, zip(*in_parts(loop, len(x.values), x.work(9 * x.colours)), strict=True))
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


def _turned(V: Array) -> Array:
    """[3, 3 · colours, channels]."""
    return np.ascontiguousarray(V.transpose(1, 2, 3, 0)).reshape(3, -1, len(V))


def first_forward(x: Images, V: Array, offset: Array) -> tuple[Map, Array]:
    """:func:`.ops.first_forward`."""
    n, height, numbers = x.values.shape
    a = _map(n, len(V) // LANES, height // 2, numbers // x.colours // 2, x.values.dtype)
    code = np.empty((n, len(V) // LANES, a.height, a.width, LANES), np.uint8)
    V = _turned(V)

    def loop(i: slice) -> None:
        first_layer.forward(x.values[i], x.colours, V, offset, a.values[i], code[i], x.padded())

    in_parts(loop, n, x.work(len(offset)))
    return a, code


def first_tangent(x: Images, V: Array, offset: Array, a: Map, code: Array) -> Map:
    """:func:`.ops.first_tangent`."""
    ad, V = a.like(), _turned(V)

    def loop(i: slice) -> None:
        first_layer.tangent(
            x.values[i], x.colours, V, offset, a.values[i], code[i], ad.values[i], x.padded()
        )

    in_parts(loop, len(a), x.work(len(offset)))
    return ad


def gated_correlation(d: Map, a: Map, code: Array, x: Images, W: Array) -> tuple[Array, Array]:
    """:func:`.ops.gated_correlation`, from the maxima alone."""
    dtype, channels, width = W.dtype, len(W), a.width

    def loop(i: slice) -> tuple[Array, Array]:
        dz, patches = (
            np.empty((width, LANES), dtype),
            np.empty((4 * width + 1, first_layer.PATCH), dtype),
        )
        sums, part = np.zeros((channels, first_layer.PATCH), dtype), np.zeros((1, channels), dtype)
        G, Sb = np.zeros(sums.shape), np.zeros(part.shape)
        first_layer.gated_patch_sums(
            d.values[i],
            a.values[i],
            code[i],
            x.values[i],
            x.colours,
            x.padded(),
            dz,
            patches,
            sums,
            part,
            G,
            Sb,
        )
        return G, Sb

    G, Sb = map(total, zip(*in_parts(loop, len(a), x.work(channels) // 4), strict=True))
    return Sb[0].astype(dtype), G[:, : W[0].size].astype(dtype).reshape(W.shape)


# ---------------------------------------------------------------------------------------------- layers 2–4
def _work(x: Map, W: Array, products: int) -> int:
    """Multiplications of a pass over one image with so many products."""
    tiles = (x.values.shape[2] // OUT) * (x.values.shape[3] // OUT)
    return products * tiles * FREQUENCIES * len(W) * W.shape[3]


def _flight(W: Array, memories: int) -> tuple[Array, Array]:
    """Memory for the tiles in flight, as many in fours as fit, and the table of where they are."""
    tiles = NUMBERS // (ROWS * max(len(W), W.shape[3])) * ROWS
    return np.empty((memories, FREQUENCIES, PLACE), W.dtype), np.empty((2 * tiles, 3), np.int64)


def _filters(W: Array) -> Array:
    """G W Gᵀ as [36, outputs, inputs], for the way back."""
    U = np.empty((FREQUENCIES, len(W), W.shape[3]), W.dtype)
    conv_layers.filters(W, U)
    return U


def _turned_filters(W: Array) -> Array:
    """The same as [36, inputs, outputs]."""
    return _filters(np.ascontiguousarray(W.transpose(3, 1, 2, 0)))


def _weights(dU: Array) -> Array:
    """The transpose of :func:`_filters`."""
    dW = np.empty((dU.shape[1], 3, 3, dU.shape[2]), dU.dtype)
    conv_layers.weights(dU, dW)
    return dW


def forward(x: Map, W: Array) -> tuple[Array, Array, Array, Array, Array, int]:
    """:func:`.ops.forward`."""
    n, _, height, width, _ = x.values.shape
    shape = (n, len(W) // LANES, height // OUT * OUT, width // OUT * OUT, LANES)
    pooled = (*shape[:2], shape[2] // 2, shape[3] // 2, LANES)
    y, p, code = np.empty(shape, W.dtype), np.empty(pooled, W.dtype), np.empty(pooled, np.uint8)
    U = _turned_filters(W)

    def loop(i: slice) -> tuple[int, Array, Array]:
        pivot, sums, total = (
            np.empty(len(W), W.dtype),
            np.zeros((2, len(W)), W.dtype),
            np.zeros((2, len(W))),
        )
        conv_layers.forward(
            x.values[i], U, x.height, x.width, y[i], p[i], code[i], pivot, sums, total, *_flight(W, 2)
        )  # fmt: skip
        return (i.stop - i.start) * x.height * x.width, pivot, total

    mean, variance = _mean_and_variance(in_parts(loop, n, _work(x, W, 1)))
    return y, mean.astype(W.dtype), variance.astype(W.dtype), p, code, n * x.height * x.width


def _mean_and_variance(parts: list[tuple[int, Array, Array]]) -> tuple[Array, Array]:
    """From count n, pivot c, Σ (y − c) and Σ (y − c)² of each part: all sums about the first pivot, in float64."""
    n, c, sums = (
        np.array(t, np.float64) for t in zip(*parts, strict=True)
    )  # [parts], [parts, channels], …
    apart, n = c - c[0], n[:, None]  # y − c_0 = (y − c) + apart
    s1 = (sums[:, 0] + n * apart).sum(0) / n.sum()
    s2 = (sums[:, 1] + apart * (2 * sums[:, 0] + n * apart)).sum(0) / n.sum()
    return c[0] + s1, s2 - s1 * s1


def affine_relu(p: Array, slope: Array, offset: Array, x: Map) -> Map:
    """:func:`.ops.affine_relu`."""
    a = _map(len(p), p.shape[1], x.height // 2, x.width // 2, p.dtype)

    def loop(i: slice) -> None:
        pooled_norm.affine_relu(p[i], slope, offset, a.height, a.width, a.values[i])

    in_parts(loop, len(p), POOLED * p[0].size)
    return a


def gated_sums(d: Map, a: Map, p: Array, mean: Array) -> tuple[Array, Array, Array]:
    """:func:`.ops.gated_sums`."""
    dz, shape = np.empty_like(p), (2, len(mean))

    def loop(i: slice) -> Array:
        total = np.zeros(shape)
        pooled_norm.gated_sums(
            d.values[i],
            a.values[i],
            p[i],
            mean,
            a.height,
            a.width,
            dz[i],
            np.empty(shape, p.dtype),
            total,
        )
        return total

    s1, s0 = total(in_parts(loop, len(p), POOLED * p[0].size)).astype(p.dtype)
    return dz, s1, s0


def backward(
    x: Map, W: Array, y: Array, c1: Array, c0: Array, dz: Array, code: Array
) -> tuple[Array, Map]:
    """:func:`.ops.backward`."""
    dx, U = x.like(), _filters(W)

    def loop(i: slice) -> Array:
        dU = np.zeros_like(U)
        conv_layers.backward(
            x.values[i],
            U,
            x.height,
            x.width,
            y[i],
            c1,
            c0,
            dz[i],
            code[i],
            dx.values[i],
            dU,
            *_flight(W, 2),
        )
        return _weights(dU)

    return total(in_parts(loop, len(x), _work(x, W, 2))), dx


def tangent(
    x: Map, xd: Map, W: Array, Wd: Array, y: Array, mean: Array, p: Array, code: Array
) -> tuple[Array, Array, Array, Array]:
    """:func:`.ops.tangent`."""
    yd, pd, shape = np.empty_like(y), np.empty_like(p), (2, len(W))
    U, Ud = _turned_filters(W), _turned_filters(Wd)

    def loop(i: slice) -> Array:
        total = np.zeros(shape)
        conv_layers.tangent(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], mean, code[i], yd[i], pd[i],
            np.zeros(shape, W.dtype), total, *_flight(W, 2),
        )  # fmt: skip
        return total

    s0, s1 = total(in_parts(loop, len(x), _work(x, W, 2))).astype(W.dtype)
    return yd, pd, s1, s0


def gated_affine(
    pd: Array,
    a: Map,
    slope: Array,
    p: Array,
    slope_p: Array,
    offset: Array,
    dz: Array,
    scale: Array,
) -> tuple[Map, Array]:
    """:func:`.ops.gated_affine`."""
    xd, shape = a.like(), (1, len(slope))

    def loop(i: slice) -> Array:
        total = np.zeros(shape)
        pooled_norm.gated_affine(
            pd[i], a.values[i], slope, p[i], slope_p, offset, dz[i], scale, a.height, a.width, xd.values[i],
            np.empty(shape, p.dtype), total,
        )  # fmt: skip
        return total

    return xd, total(in_parts(loop, len(p), POOLED * p[0].size))[0].astype(p.dtype)


def tangent_backward(
    x: Map,
    xd: Map,
    W: Array,
    Wd: Array,
    y: Array,
    yd: Array,
    c: tuple[Array, ...],
    dz: Array,
    dzd: Array,
    code: Array,
) -> tuple[Array, Map]:
    """:func:`.ops.tangent_backward`."""
    dxd, U, Ud = x.like(), _filters(W), _filters(Wd)

    def loop(i: slice) -> Array:
        dU = np.zeros_like(U)
        conv_layers.tangent_backward(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], yd[i], *c, dz[i], dzd[i], code[i],
            dxd.values[i], dU, *_flight(W, 3),
        )  # fmt: skip
        return _weights(dU)

    return total(in_parts(loop, len(x), _work(x, W, 4))), dxd
