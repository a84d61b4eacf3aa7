"""The operations of :mod:`.torch_ops` by compiled kernels (Numba, an optional extra), on a CPU.

A kernel runs on one thread and releases Python's lock. So workers of
:func:`anyshot.core.parallel.threads.map_tasks` run kernels at the same time, and idle workers help
with the parts (:mod:`.partition`) of a large set of images. Numba caches the machine code on disk.
Activations are arrays whose last axis is eight channels (:mod:`.numba_layouts`), so the number of
channels must be a multiple of 16. The position of a window's maximum takes one byte: 0 to 3 for top
left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import logging

import numpy as np
from torch import Tensor

from anyshot.inner_loop.engine.numba_first_layer import (
    first_forward,
    first_tangent,
    gated_correlation,
    patch_moments,
)
from anyshot.inner_loop.engine.numba_kernels import conv_layers, pooled_norm
from anyshot.inner_loop.engine.numba_kernels.compile import (
    Array,
    cache_folder,
    delete_stale_cache,
    is_cached,
)
from anyshot.inner_loop.engine.numba_kernels.matmul import VECTORS
from anyshot.inner_loop.engine.numba_kernels.values import LANES
from anyshot.inner_loop.engine.numba_kernels.winograd import (
    BUFFER_SIZE,
    BUFFER_STRIDE,
    FREQUENCIES,
    GROUP,
    OUTPUT_SIDE,
)
from anyshot.inner_loop.engine.numba_layouts import (
    Activation,
    empty_activation,
    features,
    from_backend,
    from_features,
    image_layout,
    to_backend,
)
from anyshot.inner_loop.engine.partition import map_over_parts, total
from anyshot.models.norm import EPS

__all__ = [
    "affine_relu", "announce_compilation", "backward", "features", "first_forward", "first_tangent",
    "forward", "from_backend", "from_features", "gated_affine", "gated_correlation", "gated_sums",
    "image_layout", "inverse_deviation", "patch_moments", "tangent", "tangent_backward",
    "to_backend", "unsupported_reason",
]  # fmt: skip

log = logging.getLogger(__name__)
#: time of one pooled element, in multiplications of a convolution; it is bound by memory
POOLED_COST = 16
MOST_CHANNELS = BUFFER_SIZE // GROUP  #: a group of four tiles must fit into a tile buffer


def announce_compilation() -> None:
    """Log that the kernels will be compiled, unless they are cached."""
    if is_cached(conv_layers.forward):
        return
    delete_stale_cache(conv_layers.forward)
    log.warning(
        "Compiling the engine's kernels, once: about 3 seconds of an idle core for adaptation, "
        "3 more for meta-gradients; cached in %s.",
        cache_folder(conv_layers.forward),
    )


def unsupported_reason(weights: list[Tensor]) -> str | None:
    """Why the kernels cannot do convolutions with these weights; None if they can."""
    multiple = LANES * VECTORS
    for weight in weights:
        channels = len(weight)
        if channels % multiple or channels > MOST_CHANNELS:
            return f"{channels} channels; expected multiples of {multiple} up to {MOST_CHANNELS}"
    colours = weights[0].shape[1]
    return f"images of {colours} colours; expected at most 3" if colours > 3 else None


def inverse_deviation(variance: Array) -> Array:
    """:func:`.torch_ops.inverse_deviation`."""
    return 1 / np.sqrt(np.maximum(variance, 0) + EPS)


# ---------------------------------------------------------------------- layers 2–4
def _work(x: Activation, W: Array, products: int) -> int:
    """Multiplications of a pass over one image, for this number of products."""
    tiles = (x.values.shape[2] // OUTPUT_SIDE) * (x.values.shape[3] // OUTPUT_SIDE)
    return products * tiles * FREQUENCIES * len(W) * W.shape[3]


def _tile_buffers(W: Array, count: int) -> tuple[Array, Array]:
    """Memory of tile buffers, and the table of tile positions of this batch and the next."""
    tiles = BUFFER_SIZE // (GROUP * max(len(W), W.shape[3])) * GROUP
    memory = np.empty((count, FREQUENCIES, BUFFER_STRIDE), W.dtype)
    return memory, np.empty((2 * tiles, 3), np.int64)


def _filters(W: Array) -> Array:
    """G W Gᵀ as [36, outputs, inputs], for the backward passes."""
    U = np.empty((FREQUENCIES, len(W), W.shape[3]), W.dtype)
    conv_layers.transform_filters(W, U)
    return U


def _forward_filters(W: Array) -> Array:
    """G W Gᵀ as [36, inputs, outputs], for the forward passes."""
    return _filters(np.ascontiguousarray(W.transpose(3, 1, 2, 0)))


def _weights(dU: Array) -> Array:
    """The transpose of :func:`_filters`."""
    dW = np.empty((dU.shape[1], 3, 3, dU.shape[2]), dU.dtype)
    conv_layers.transform_filters_backward(dU, dW)
    return dW


def forward(x: Activation, W: Array) -> tuple[Array, Array, Array, Array, Array, int]:
    """:func:`.torch_ops.forward`."""
    n, _, height, width, _ = x.values.shape
    blocks = len(W) // LANES
    tiled = (height // OUTPUT_SIDE * OUTPUT_SIDE, width // OUTPUT_SIDE * OUTPUT_SIDE)
    shape = (n, blocks, *tiled, LANES)
    pooled = (n, blocks, tiled[0] // 2, tiled[1] // 2, LANES)
    y, p, code = np.empty(shape, W.dtype), np.empty(pooled, W.dtype), np.empty(pooled, np.uint8)
    U = _forward_filters(W)

    def run(i: slice) -> tuple[int, Array, Array]:
        pivot = np.empty(len(W), W.dtype)
        sums = np.zeros((2, len(W)), W.dtype)
        total = np.zeros((2, len(W)))
        conv_layers.forward(
            x.values[i], U, x.height, x.width, y[i], p[i], code[i], pivot, sums, total,
            *_tile_buffers(W, 2),
        )  # fmt: skip
        return (i.stop - i.start) * x.height * x.width, pivot, total

    mean, variance = _mean_and_variance(map_over_parts(run, n, _work(x, W, 1)))
    return y, mean.astype(W.dtype), variance.astype(W.dtype), p, code, n * x.height * x.width


def _mean_and_variance(parts: list[tuple[int, Array, Array]]) -> tuple[Array, Array]:
    """Mean and variance per channel from count n, pivot c, Σ (y − c) and Σ (y − c)² of each part.

    All sums are converted to the first pivot, in float64.
    """
    # n [parts], c [parts, channels], sums [parts, 2, channels]
    n, c, sums = (np.array(t, np.float64) for t in zip(*parts, strict=True))
    apart, n = c - c[0], n[:, None]  # y − c_0 = (y − c) + apart
    s1 = (sums[:, 0] + n * apart).sum(0) / n.sum()
    s2 = (sums[:, 1] + apart * (2 * sums[:, 0] + n * apart)).sum(0) / n.sum()
    return c[0] + s1, s2 - s1 * s1


def affine_relu(p: Array, slope: Array, offset: Array, x: Activation) -> Activation:
    """:func:`.torch_ops.affine_relu`."""
    a = empty_activation(len(p), p.shape[1], x.height // 2, x.width // 2, p.dtype)

    def run(i: slice) -> None:
        pooled_norm.affine_relu(p[i], slope, offset, a.height, a.width, a.values[i])

    map_over_parts(run, len(p), POOLED_COST * p[0].size)
    return a


def gated_sums(d: Activation, a: Activation, p: Array, mean: Array) -> tuple[Array, Array, Array]:
    """:func:`.torch_ops.gated_sums`."""
    dz, shape = np.empty_like(p), (2, len(mean))

    def run(i: slice) -> Array:
        total = np.zeros(shape)
        pooled_norm.gated_sums(
            d.values[i], a.values[i], p[i], mean, a.height, a.width, dz[i],
            np.empty(shape, p.dtype), total,
        )  # fmt: skip
        return total

    s1, s0 = total(map_over_parts(run, len(p), POOLED_COST * p[0].size)).astype(p.dtype)
    return dz, s1, s0


def backward(
    x: Activation, W: Array, y: Array, c1: Array, c0: Array, dz: Array, code: Array
) -> tuple[Array, Activation]:
    """:func:`.torch_ops.backward`."""
    dx, U = x.empty_like(), _filters(W)

    def run(i: slice) -> Array:
        dU = np.zeros_like(U)
        conv_layers.backward(
            x.values[i], U, x.height, x.width, y[i], c1, c0, dz[i], code[i], dx.values[i], dU,
            *_tile_buffers(W, 2),
        )  # fmt: skip
        return _weights(dU)

    return total(map_over_parts(run, len(x), _work(x, W, 2))), dx


def tangent(
    x: Activation, xd: Activation, W: Array, Wd: Array, y: Array, mean: Array, p: Array, code: Array
) -> tuple[Array, Array, Array, Array]:
    """:func:`.torch_ops.tangent`."""
    yd, pd, shape = np.empty_like(y), np.empty_like(p), (2, len(W))
    U, Ud = _forward_filters(W), _forward_filters(Wd)

    def run(i: slice) -> Array:
        total = np.zeros(shape)
        conv_layers.tangent(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], mean, code[i], yd[i], pd[i],
            np.zeros(shape, W.dtype), total, *_tile_buffers(W, 2),
        )  # fmt: skip
        return total

    s0, s1 = total(map_over_parts(run, len(x), _work(x, W, 2))).astype(W.dtype)
    return yd, pd, s1, s0


def gated_affine(
    pd: Array,
    a: Activation,
    slope: Array,
    p: Array,
    slope_p: Array,
    offset: Array,
    dz: Array,
    scale: Array,
) -> tuple[Activation, Array]:
    """:func:`.torch_ops.gated_affine`."""
    xd, shape = a.empty_like(), (1, len(slope))

    def run(i: slice) -> Array:
        total = np.zeros(shape)
        pooled_norm.gated_affine(
            pd[i], a.values[i], slope, p[i], slope_p, offset, dz[i], scale, a.height, a.width,
            xd.values[i], np.empty(shape, p.dtype), total,
        )  # fmt: skip
        return total

    return xd, total(map_over_parts(run, len(p), POOLED_COST * p[0].size))[0].astype(p.dtype)


def tangent_backward(
    x: Activation,
    xd: Activation,
    W: Array,
    Wd: Array,
    y: Array,
    yd: Array,
    c: tuple[Array, ...],
    dz: Array,
    dzd: Array,
    code: Array,
) -> tuple[Array, Activation]:
    """:func:`.torch_ops.tangent_backward`."""
    dxd, U, Ud = x.empty_like(), _filters(W), _filters(Wd)

    def run(i: slice) -> Array:
        dU = np.zeros_like(U)
        conv_layers.tangent_backward(
            x.values[i], xd.values[i], U, Ud, x.height, x.width, y[i], yd[i], *c, dz[i], dzd[i],
            code[i], dxd.values[i], dU, *_tile_buffers(W, 3),
        )  # fmt: skip
        return _weights(dU)

    return total(map_over_parts(run, len(x), _work(x, W, 4))), dxd
