"""The functions of :mod:`.ops` by fused loops and Winograd's convolutions (Numba, an optional extra), on a CPU.

A loop runs on one thread, the caller's, without Python's lock: the workers of :func:`anyshot.parallel.map_tasks` run
theirs at the same time. Numba keeps the compiled loops on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyshot.inner import kernels, ops, sparse, winograd
from anyshot.inner.jit import Array
from anyshot.inner.ops import CL

log = logging.getLogger(__name__)


def announce() -> None:
    """Say so in the log if the loops will have to be compiled first."""
    folder = Path(str(kernels.spread.stats.cache_path))
    if not any(folder.glob("kernels.*.nbi")):
        log.warning("Compiling the engine's loops on first use: some ten seconds, once; kept in %s.", folder)


def _run(loop: Callable[..., Any], *arguments: Tensor | bool) -> Any:
    """Call a loop on the memory of tensors."""
    return loop(*[_array(t) if isinstance(t, Tensor) else t for t in arguments])


def _array(t: Tensor) -> Array:
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).numpy()


def _tensors(sums: Array, like: Tensor) -> tuple[Tensor, ...]:
    return torch.from_numpy(sums).to(like.dtype).unbind()


def _pooled(y: Tensor, dtype: torch.dtype) -> Tensor:
    n, c, h, w = y.shape
    return torch.empty((n, c, h // 2, w // 2), dtype=dtype, memory_format=CL)


def _more(d: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The first summand, to be overwritten, and the second or nothing."""
    return d[0].contiguous(memory_format=CL), d[1].contiguous(memory_format=CL) if len(d) > 1 else d[0][:0]


def pool_relu(u: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`.ops.pool_relu`."""
    a, code = _pooled(u, u.dtype), _pooled(u, torch.uint8)
    _run(kernels.pool_windows, u.contiguous(memory_format=CL), a, code, True)
    return a, code


def statistics_and_pool(y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`.ops.statistics_and_pool`."""
    p, code, pivot = _pooled(y, y.dtype), _pooled(y, torch.uint8), y[0].mean((1, 2))
    s1, s2 = torch.from_numpy(_run(kernels.statistics_and_pool, y, pivot, p, code)) / (y.numel() // y.shape[1])
    return (pivot + s1).to(y.dtype), (s2 - s1 * s1).clamp_min_(0).to(y.dtype), p, code


def affine_relu(p: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """:func:`.ops.affine_relu`."""
    a = torch.empty_like(p)
    _run(kernels.affine_relu, p, slope, offset, a)
    return a


def gated_sums_(d: Sequence[Tensor], a: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`.ops.gated_sums_`."""
    dz, more = _more(d)
    s1, s0 = _tensors(_run(kernels.gated_sums, dz, more, a, u, c), dz)
    return dz, s1, s0


def spread(y: Tensor, c1: Tensor, c0: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """:func:`.ops.spread`."""
    D = torch.empty_like(y)
    _run(kernels.spread, y, c1, c0, dz, code, D)
    return D


def tangent_sums_(d: Sequence[Tensor], y: Tensor, mean: Tensor, code: Tensor) -> tuple[Tensor, ...]:
    """:func:`.ops.tangent_sums_`."""
    pd, (yd, more) = _pooled(y, y.dtype), _more(d)
    return yd, pd, *_tensors(_run(kernels.tangent_sums, yd, more, y, mean, code, pd), y)


def gated_gather(yd: Tensor, code: Tensor, a: Tensor) -> Tensor:
    """:func:`.ops.gated_gather`."""
    p = torch.empty_like(a)
    _run(kernels.gather, yd, code, p)
    _run(kernels.gate, p, a)
    return p


def gated_affine_(
    p: Tensor, a: Tensor, slope: Tensor, u: Tensor, slope_u: Tensor, offset: Tensor, dz: Tensor
) -> tuple[Tensor, Tensor]:
    """:func:`.ops.gated_affine_`."""
    [total] = _tensors(_run(kernels.gated_affine, p, a, slope, u, slope_u, offset, dz), p)
    return p, total


def tangent_spread_(yd: Tensor, c1: Tensor, y: Tensor, c1d: Tensor, c0d: Tensor, dzd: Tensor, code: Tensor) -> Tensor:
    """:func:`.ops.tangent_spread_`."""
    _run(kernels.tangent_spread, yd, c1, y, c1d, c0d, dzd, code)
    return yd


def gated_correlation(d: Sequence[Tensor], a: Tensor, code: Tensor, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`.ops.gated_correlation`, from the maxima alone."""
    colours = x.shape[1]
    total = torch.from_numpy(_run(sparse.gated_patch_sums, *_more(d), a, code, x)).to(x.dtype)
    G = total[:, : 9 * colours].view(-1, 3, 3, colours).permute(0, 3, 1, 2)  # patches are rows, columns, colours
    return total[:, -1], G


def conv(x: Tensor, W: Tensor) -> Tensor:
    """:func:`.ops.conv`."""
    return (winograd if winograd.fits(W) else ops).conv(x, W)


def conv_tangent(x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor) -> tuple[Tensor, ...]:
    """:func:`.ops.conv_tangent`."""
    return (winograd if winograd.fits(W) else ops).conv_tangent(x, xd, W, Wd)


def conv_backward(D: Tensor, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`.ops.conv_backward`."""
    return (winograd if winograd.fits(W) else ops).conv_backward(D, x, W)


def conv_backward_tangent(
    D: Tensor, Dd: Tensor, x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """:func:`.ops.conv_backward_tangent`."""
    return (winograd if winograd.fits(W) else ops).conv_backward_tangent(D, Dd, x, xd, W, Wd)
