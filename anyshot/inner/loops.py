"""The functions of :mod:`.ops` as compiled loops (Numba, an optional extra), on a CPU.

A loop runs on one thread, the caller's, without Python's lock: the workers of :func:`anyshot.parallel.map_tasks` run
theirs at the same time. Numba keeps the compiled loops on disk. What lies between two layers is not a tensor here but
an array whose last axis are eight channels (:mod:`.passes` says how), so channels come in sixteens. The place of a
window's maximum takes one byte, 0..3 for its top left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anyshot.inner import first, kernels, passes
from anyshot.inner.jit import Array
from anyshot.inner.products import VECTORS
from anyshot.inner.tiles import NUMBERS, OUT
from anyshot.inner.vectors import LANES

log = logging.getLogger(__name__)


def announce() -> None:
    """Say so in the log if the loops will have to be compiled first."""
    folder = Path(str(passes.forward.stats.cache_path))
    if not any(folder.glob("passes.*.nbi")):
        log.warning("Compiling the engine's loops on first use: about half a minute, once; kept in %s.", folder)


def fits(weights: list[Tensor]) -> bool:
    """Whether the convolutions have channels in sixteens, at most 256, and the first at most three colours."""
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


def _kernel(W: Tensor) -> Array:
    """[outputs, 3, 3, inputs]."""
    return W.permute(0, 2, 3, 1).contiguous().numpy()


def _weights(dU: Array) -> Tensor:
    return torch.from_numpy(passes.weights(dU)).permute(0, 3, 1, 2)


def _tensors(sums: Array, like: Tensor) -> tuple[Tensor, ...]:
    return torch.from_numpy(sums).to(like.dtype).unbind()


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
def _images(x: Tensor) -> Array:
    """[n, height, width · colours]."""
    n, colours, height, width = x.shape
    return x.permute(0, 2, 3, 1).reshape(n, height, width * colours).numpy()


def patch_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`.ops.patch_moments`."""
    (n, colours, height, width), size = x.shape, 9 * x.shape[1]
    first_, second = (torch.from_numpy(t) / (n * height * width) for t in first.patch_moments(_images(x), colours))
    order = (2, 0, 1)  # patches are rows, columns, colours there, colours first in a weight
    return first_.permute(order).reshape(size), second.permute(*order, 5, 3, 4).reshape(size, size)


def _turned(V: Tensor) -> Array:
    """[3, 3, colours, channels]."""
    return V.permute(2, 3, 1, 0).contiguous().numpy()


def first_forward(x: Tensor, V: Tensor, offset: Tensor) -> tuple[Map, Array]:
    """:func:`.ops.first_forward`."""
    images, blocks, (n, colours, height, width) = _images(x), len(V) // LANES, x.shape
    a = _map(n, blocks, height // 2, width // 2, images.dtype)
    code = np.empty((n, blocks, height // 2, width // 2, LANES), np.uint8)
    first.forward(images, colours, _turned(V), offset.numpy(), a.values, code)
    return a, code


def first_tangent(x: Tensor, V: Tensor, offset: Tensor, a: Map, code: Array) -> Map:
    """:func:`.ops.first_tangent`."""
    ad = a.like()
    first.tangent(_images(x), x.shape[1], _turned(V), offset.numpy(), a.values, code, ad.values)
    return ad


def gated_correlation(d: Map, a: Map, code: Array, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`.ops.gated_correlation`, from the maxima alone."""
    colours = x.shape[1]
    sums, total = first.gated_patch_sums(d.values, a.values, code, _images(x), colours)
    G = torch.from_numpy(sums[:, : 9 * colours]).to(x.dtype)  # patches are rows, columns, colours
    return torch.from_numpy(total).to(x.dtype), G.reshape(-1, 3, 3, colours).permute(0, 3, 1, 2)


# ---------------------------------------------------------------------------------------------- layers 2–4
def forward(x: Map, W: Tensor) -> tuple[Array, Tensor, Tensor, Array, Array, int]:
    """:func:`.ops.forward`."""
    n, _, height, width, _ = x.values.shape
    shape = (n, len(W) // LANES, height // OUT * OUT, width // OUT * OUT, LANES)
    pooled = (*shape[:2], shape[2] // 2, shape[3] // 2, LANES)
    y, p, code = np.empty(shape, x.values.dtype), np.empty(pooled, x.values.dtype), np.empty(pooled, np.uint8)
    U = passes.turned_filters(_kernel(W))
    pivot, sums = passes.forward(x.values, U, x.height, x.width, y, p, code)
    count = n * x.height * x.width
    s1, s2 = torch.from_numpy(sums) / count
    mean, variance = torch.from_numpy(pivot) + s1, (s2 - s1 * s1).clamp_min_(0)
    return y, mean.to(W.dtype), variance.to(W.dtype), p, code, count


def affine_relu(p: Array, slope: Tensor, offset: Tensor, x: Map) -> Map:
    """:func:`.ops.affine_relu`."""
    a = _map(len(p), p.shape[1], x.height // 2, x.width // 2, p.dtype)
    kernels.affine_relu(p, slope.numpy(), offset.numpy(), a.height, a.width, a.values)
    return a


def gated_sums(d: Map, a: Map, p: Array, mean: Tensor) -> tuple[Array, Tensor, Tensor]:
    """:func:`.ops.gated_sums`."""
    dz = np.empty_like(p)
    s1, s0 = _tensors(kernels.gated_sums(d.values, a.values, p, mean.numpy(), a.height, a.width, dz), mean)
    return dz, s1, s0


def backward(
    x: Map, W: Tensor, y: Array, c1: Tensor, c0: Tensor, dz: Array, code: Array
) -> tuple[Tensor, Map]:  # fmt: skip
    """:func:`.ops.backward`."""
    dx, U = x.like(), passes.filters(_kernel(W))
    dU = passes.backward(x.values, U, x.height, x.width, y, c1.numpy(), c0.numpy(), dz, code, dx.values)
    return _weights(dU), dx


def tangent(
    x: Map, xd: Map, W: Tensor, Wd: Tensor, y: Array, mean: Tensor, p: Array, code: Array
) -> tuple[Array, Array, Tensor, Tensor]:
    """:func:`.ops.tangent`."""
    yd, pd = np.empty_like(y), np.empty_like(p)
    U, Ud = passes.turned_filters(_kernel(W)), passes.turned_filters(_kernel(Wd))
    sums = passes.tangent(x.values, xd.values, U, Ud, x.height, x.width, y, mean.numpy(), code, yd, pd)
    s0, s1 = _tensors(sums, mean)
    return yd, pd, s1, s0


def gated_affine(
    pd: Array, a: Map, slope: Tensor, p: Array, slope_p: Tensor, offset: Tensor, dz: Array, scale: Tensor
) -> tuple[Map, Tensor]:
    """:func:`.ops.gated_affine`."""
    xd, vectors = a.like(), [t.numpy() for t in (slope, slope_p, offset, scale)]
    slope_, slope_p_, offset_, scale_ = vectors
    total = kernels.gated_affine(
        pd, a.values, slope_, p, slope_p_, offset_, dz, scale_, a.height, a.width, xd.values
    )  # fmt: skip
    return xd, torch.from_numpy(total).to(slope.dtype)


def tangent_backward(
    x: Map, xd: Map, W: Tensor, Wd: Tensor, y: Array, yd: Array, c: tuple[Tensor, ...], dz: Array, dzd: Array,
    code: Array,
) -> tuple[Tensor, Map]:  # fmt: skip
    """:func:`.ops.tangent_backward`."""
    dxd, (c1, c0, c1d, c0d) = x.like(), (t.numpy() for t in c)
    U, Ud = passes.filters(_kernel(W)), passes.filters(_kernel(Wd))
    dU = passes.tangent_backward(
        x.values, xd.values, U, Ud, x.height, x.width, y, yd, c1, c0, c1d, c0d, dz, dzd, code, dxd.values
    )
    return _weights(dU), dxd
