"""The functions of :mod:`.ops` as compiled loops (Numba, an optional extra), on a CPU.

A loop runs on one thread, without Python's lock: workers of :func:`anyshot.parallel.map_tasks` run theirs at the same
time, and those without a task help with the parts (:mod:`.parts`) of a large set of images. Numba keeps the compiled
loops on disk. What lies between two layers is not a tensor here but an array whose last axis are eight channels
(:mod:`.compiled.passes` says how), so channels come in sixteens. The place of a window's maximum takes one byte, 0..3
for its top left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyshot.inner.compiled import first, kernels, passes
from anyshot.inner.compiled.jit import Array, kept
from anyshot.inner.compiled.products import VECTORS
from anyshot.inner.compiled.tiles import FREQUENCIES, NUMBERS, OUT
from anyshot.inner.compiled.vectors import LANES
from anyshot.inner.parts import in_parts, total
from anyshot.network import EPS

log = logging.getLogger(__name__)
POOLED = 16  #: multiplications in the time that a number at a pooled place takes: this is about memory


def announce() -> None:
    """Say so in the log if the loops will have to be compiled first."""
    if not kept(passes.forward):
        folder = passes.forward.stats.cache_path
        log.warning("Compiling the engine's loops on first use: some twenty seconds, once; kept in %s.", folder)


def fits(weights: list[Tensor]) -> bool:
    """Whether the convolutions have channels in sixteens, at most 128, and the first at most three colours."""
    channels = [len(W) for W in weights]
    return weights[0].shape[1] <= 3 and all(c % (LANES * VECTORS) == 0 and 4 * c <= NUMBERS for c in channels)


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
    return Map(np.empty((n, blocks, OUT * rows + 2, OUT * columns + 2, LANES), dtype), height, width)


def enter(t: Tensor) -> Array:
    """:func:`.ops.enter`: weights become [outputs, 3, 3, inputs]."""
    return t.permute(0, 2, 3, 1).contiguous().numpy() if t.dim() == 4 else t.numpy()


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
    to.values[:, :, 1 : a.height + 1, 1 : a.width + 1] = inside  # nobody reads the border of a cotangent
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


def pictures(x: Tensor) -> Images:
    """:func:`.ops.pictures`."""
    n, colours, height, width = x.shape
    return Images(x.permute(0, 2, 3, 1).reshape(n, height, width * colours).numpy(), colours)


def patch_moments(x: Images) -> tuple[Array, Array]:
    """:func:`.ops.patch_moments`, in the order of weights here: rows, columns, colours."""
    dtype, size, pixels = x.values.dtype, 9 * x.colours, x.values.size // x.colours
    sums = in_parts(lambda part: first.patch_moments(x.values[part], x.colours), len(x.values), x.work(9 * x.colours))
    m, M = (total(t) / pixels for t in zip(*sums, strict=True))
    S = M.reshape(size, size) - np.outer(m, m)
    return m[None].astype(dtype), S.astype(dtype)


def _turned(V: Array) -> Array:
    """[3, 3, colours, channels]."""
    return np.ascontiguousarray(V.transpose(1, 2, 3, 0))


def first_forward(x: Images, V: Array, offset: Array) -> tuple[Map, Array]:
    """:func:`.ops.first_forward`."""
    n, height, numbers = x.values.shape
    a = _map(n, len(V) // LANES, height // 2, numbers // x.colours // 2, x.values.dtype)
    code = np.empty((n, len(V) // LANES, a.height, a.width, LANES), np.uint8)
    V = _turned(V)

    def loop(part: slice) -> None:
        first.forward(x.values[part], x.colours, V, offset, a.values[part], code[part])

    in_parts(loop, n, x.work(len(offset)))
    return a, code


def first_tangent(x: Images, V: Array, offset: Array, a: Map, code: Array) -> Map:
    """:func:`.ops.first_tangent`."""
    ad, V = a.like(), _turned(V)

    def loop(part: slice) -> None:
        first.tangent(x.values[part], x.colours, V, offset, a.values[part], code[part], ad.values[part])

    in_parts(loop, len(a), x.work(len(offset)))
    return ad


def gated_correlation(d: Map, a: Map, code: Array, x: Images, W: Array) -> tuple[Array, Array]:
    """:func:`.ops.gated_correlation`, from the maxima alone."""

    def loop(part: slice) -> tuple[Array, Array]:
        return first.gated_patch_sums(d.values[part], a.values[part], code[part], x.values[part], x.colours)

    G, Sb = (total(t) for t in zip(*in_parts(loop, len(a), x.work(len(W)) // 4), strict=True))
    return Sb.astype(W.dtype), G[:, : W[0].size].astype(W.dtype).reshape(W.shape)


# ---------------------------------------------------------------------------------------------- layers 2–4
def _work(x: Map, W: Array, products: int) -> int:
    """Multiplications of a pass over one image with so many products."""
    tiles = (x.values.shape[2] // OUT) * (x.values.shape[3] // OUT)
    return products * tiles * FREQUENCIES * len(W) * W.shape[3]


def forward(x: Map, W: Array) -> tuple[Array, Array, Array, Array, Array, int]:
    """:func:`.ops.forward`."""
    n, _, height, width, _ = x.values.shape
    shape = (n, len(W) // LANES, height // OUT * OUT, width // OUT * OUT, LANES)
    pooled = (*shape[:2], shape[2] // 2, shape[3] // 2, LANES)
    y, p, code = np.empty(shape, x.values.dtype), np.empty(pooled, x.values.dtype), np.empty(pooled, np.uint8)
    U = passes.turned_filters(W)

    def loop(part: slice) -> tuple[int, Array, Array]:
        pivot, sums = passes.forward(x.values[part], U, x.height, x.width, y[part], p[part], code[part])
        return (part.stop - part.start) * x.height * x.width, pivot, sums

    mean, variance = _mean_and_variance(in_parts(loop, n, _work(x, W, 1)))
    return y, mean.astype(W.dtype), variance.astype(W.dtype), p, code, n * x.height * x.width


def _mean_and_variance(parts: list[tuple[int, Array, Array]]) -> tuple[Array, Array]:
    """From count n, pivot c, Σ (y − c) and Σ (y − c)² of each part: all sums about the first pivot, in float64."""
    pivot, count = parts[0][1].astype(np.float64), sum(n for n, _, _ in parts)
    about = []
    for n, c, (s1, s2) in parts:
        apart = c - pivot  # y − pivot = (y − c) + apart
        about.append(np.stack([s1 + n * apart, s2 + apart * (2 * s1 + n * apart)]))
    s1, s2 = total(about) / count
    return pivot + s1, s2 - s1 * s1


def affine_relu(p: Array, slope: Array, offset: Array, x: Map) -> Map:
    """:func:`.ops.affine_relu`."""
    a = _map(len(p), p.shape[1], x.height // 2, x.width // 2, p.dtype)

    def loop(part: slice) -> None:
        kernels.affine_relu(p[part], slope, offset, a.height, a.width, a.values[part])

    in_parts(loop, len(p), POOLED * p[0].size)
    return a


def gated_sums(d: Map, a: Map, p: Array, mean: Array) -> tuple[Array, Array, Array]:
    """:func:`.ops.gated_sums`."""
    dz = np.empty_like(p)

    def loop(part: slice) -> Array:
        return kernels.gated_sums(d.values[part], a.values[part], p[part], mean, a.height, a.width, dz[part])

    s1, s0 = total(in_parts(loop, len(p), POOLED * p[0].size)).astype(p.dtype)
    return dz, s1, s0


def backward(x: Map, W: Array, y: Array, c1: Array, c0: Array, dz: Array, code: Array) -> tuple[Array, Map]:
    """:func:`.ops.backward`."""
    dx, U = x.like(), passes.filters(W)

    def loop(i: slice) -> Array:
        dU = passes.backward(x.values[i], U, x.height, x.width, y[i], c1, c0, dz[i], code[i], dx.values[i])
        return passes.weights(dU)

    return total(in_parts(loop, len(x), _work(x, W, 2))), dx


def tangent(
    x: Map, xd: Map, W: Array, Wd: Array, y: Array, mean: Array, p: Array, code: Array
) -> tuple[Array, Array, Array, Array]:
    """:func:`.ops.tangent`."""
    yd, pd = np.empty_like(y), np.empty_like(p)
    U, Ud = passes.turned_filters(W), passes.turned_filters(Wd)

    def loop(i: slice) -> Array:
        return passes.tangent(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], mean, code[i], yd[i], pd[i]
        )  # fmt: skip

    s0, s1 = total(in_parts(loop, len(x), _work(x, W, 2))).astype(W.dtype)
    return yd, pd, s1, s0


def gated_affine(
    pd: Array, a: Map, slope: Array, p: Array, slope_p: Array, offset: Array, dz: Array, scale: Array
) -> tuple[Map, Array]:
    """:func:`.ops.gated_affine`."""
    xd = a.like()

    def loop(i: slice) -> Array:
        return kernels.gated_affine(
            pd[i], a.values[i], slope, p[i], slope_p, offset, dz[i], scale, a.height, a.width, xd.values[i]
        )  # fmt: skip

    return xd, total(in_parts(loop, len(p), POOLED * p[0].size)).astype(p.dtype)


def tangent_backward(
    x: Map, xd: Map, W: Array, Wd: Array, y: Array, yd: Array, c: tuple[Array, ...], dz: Array, dzd: Array, code: Array
) -> tuple[Array, Map]:
    """:func:`.ops.tangent_backward`."""
    dxd, (c1, c0, c1d, c0d) = x.like(), c
    U, Ud = passes.filters(W), passes.filters(Wd)

    def loop(i: slice) -> Array:
        dU = passes.tangent_backward(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], yd[i], c1, c0, c1d, c0d, dz[i], dzd[i], code[i],
            dxd.values[i],
        )  # fmt: skip
        return passes.weights(dU)

    return total(in_parts(loop, len(x), _work(x, W, 4))), dxd
