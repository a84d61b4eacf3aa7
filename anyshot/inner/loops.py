"""The functions of :mod:`.ops` as compiled loops (Numba, an optional extra), on a CPU.

A loop runs on one thread, the caller's, without Python's lock: the workers of :func:`anyshot.parallel.map_tasks` run
theirs at the same time. Numba keeps the compiled loops on disk. What lies between two layers is not a tensor here but
an array whose last axis are eight channels (:mod:`.passes` says how), so channels come in sixteens. The place of a
window's maximum takes one byte, 0..3 for its top left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyshot.inner import first, kernels, passes
from anyshot.inner.jit import Array, kept
from anyshot.inner.products import VECTORS
from anyshot.inner.tiles import NUMBERS, OUT
from anyshot.inner.vectors import LANES
from anyshot.network import EPS

log = logging.getLogger(__name__)


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


def pictures(x: Tensor) -> Images:
    """:func:`.ops.pictures`."""
    n, colours, height, width = x.shape
    return Images(x.permute(0, 2, 3, 1).reshape(n, height, width * colours).numpy(), colours)


def patch_moments(x: Images) -> tuple[Array, Array]:
    """:func:`.ops.patch_moments`, in the order of weights here: rows, columns, colours."""
    dtype, size, pixels = x.values.dtype, 9 * x.colours, x.values.size // x.colours
    m, M = (t / pixels for t in first.patch_moments(x.values, x.colours))
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
    first.forward(x.values, x.colours, _turned(V), offset, a.values, code)
    return a, code


def first_tangent(x: Images, V: Array, offset: Array, a: Map, code: Array) -> Map:
    """:func:`.ops.first_tangent`."""
    ad = a.like()
    first.tangent(x.values, x.colours, _turned(V), offset, a.values, code, ad.values)
    return ad


def gated_correlation(d: Map, a: Map, code: Array, x: Images, W: Array) -> tuple[Array, Array]:
    """:func:`.ops.gated_correlation`, from the maxima alone."""
    sums, total = first.gated_patch_sums(d.values, a.values, code, x.values, x.colours)
    return total.astype(W.dtype), sums[:, : W[0].size].astype(W.dtype).reshape(W.shape)


# ---------------------------------------------------------------------------------------------- layers 2–4
def forward(x: Map, W: Array) -> tuple[Array, Array, Array, Array, Array, int]:
    """:func:`.ops.forward`."""
    n, _, height, width, _ = x.values.shape
    shape = (n, len(W) // LANES, height // OUT * OUT, width // OUT * OUT, LANES)
    pooled = (*shape[:2], shape[2] // 2, shape[3] // 2, LANES)
    y, p, code = np.empty(shape, x.values.dtype), np.empty(pooled, x.values.dtype), np.empty(pooled, np.uint8)
    pivot, sums = passes.forward(x.values, passes.turned_filters(W), x.height, x.width, y, p, code)
    count = n * x.height * x.width
    s1, s2 = sums / count
    return y, (pivot + s1).astype(W.dtype), (s2 - s1 * s1).astype(W.dtype), p, code, count


def affine_relu(p: Array, slope: Array, offset: Array, x: Map) -> Map:
    """:func:`.ops.affine_relu`."""
    a = _map(len(p), p.shape[1], x.height // 2, x.width // 2, p.dtype)
    kernels.affine_relu(p, slope, offset, a.height, a.width, a.values)
    return a


def gated_sums(d: Map, a: Map, p: Array, mean: Array) -> tuple[Array, Array, Array]:
    """:func:`.ops.gated_sums`."""
    dz = np.empty_like(p)
    s1, s0 = kernels.gated_sums(d.values, a.values, p, mean, a.height, a.width, dz).astype(p.dtype)
    return dz, s1, s0


def backward(x: Map, W: Array, y: Array, c1: Array, c0: Array, dz: Array, code: Array) -> tuple[Array, Map]:
    """:func:`.ops.backward`."""
    dx = x.like()
    dU = passes.backward(x.values, passes.filters(W), x.height, x.width, y, c1, c0, dz, code, dx.values)
    return passes.weights(dU), dx


def tangent(
    x: Map, xd: Map, W: Array, Wd: Array, y: Array, mean: Array, p: Array, code: Array
) -> tuple[Array, Array, Array, Array]:
    """:func:`.ops.tangent`."""
    yd, pd = np.empty_like(y), np.empty_like(p)
    U, Ud = passes.turned_filters(W), passes.turned_filters(Wd)
    s0, s1 = passes.tangent(x.values, xd.values, U, Ud, x.height, x.width, y, mean, code, yd, pd).astype(W.dtype)
    return yd, pd, s1, s0


def gated_affine(
    pd: Array, a: Map, slope: Array, p: Array, slope_p: Array, offset: Array, dz: Array, scale: Array
) -> tuple[Map, Array]:
    """:func:`.ops.gated_affine`."""
    xd = a.like()
    total = kernels.gated_affine(
        pd, a.values, slope, p, slope_p, offset, dz, scale, a.height, a.width, xd.values
    )  # fmt: skip
    return xd, total.astype(p.dtype)


def tangent_backward(
    x: Map, xd: Map, W: Array, Wd: Array, y: Array, yd: Array, c: tuple[Array, ...], dz: Array, dzd: Array, code: Array
) -> tuple[Array, Map]:
    """:func:`.ops.tangent_backward`."""
    dxd, (c1, c0, c1d, c0d) = x.like(), c
    U, Ud = passes.filters(W), passes.filters(Wd)
    dU = passes.tangent_backward(
        x.values, xd.values, U, Ud, x.height, x.width, y, yd, c1, c0, c1d, c0d, dz, dzd, code, dxd.values
    )
    return passes.weights(dU), dxd
