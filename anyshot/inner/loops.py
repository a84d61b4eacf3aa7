"""The engine's work between convolutions as fused loops (Numba, an optional extra): the functions of :mod:`.ops`.

Each loop reads its large arrays once, writes each result once, and works on the tensors' own memory, [n, h, w,
channels]. The place of a window's maximum takes one byte, 0..3 for its top left, top right, bottom left, bottom right;
the first of equal values wins, as in torch. Sums run in the tensors' own type within an image and in float64 over
images. LLVM makes vector instructions of the innermost loops because they run over channels, touch few arrays each, and
multiply by 0 or 1 (``one(condition)``) instead of branching.

A loop runs on one thread, the caller's, without Python's lock: the workers of :func:`anyshot.parallel.map_tasks` run
theirs at the same time. Numba keeps the compiled loops on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyshot.inner import ops, winograd
from anyshot.inner.jit import Array, compiled
from anyshot.inner.ops import CL

log = logging.getLogger(__name__)


# ---------------------------------------------------------------------------------------------------- loops
@compiled
def _pool_windows(y: Array, p: Array, code: Array, relu: bool) -> None:
    n, h, w, channels = p.shape
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    best, k = y[i, 2 * r, 2 * s, c], 0
                    if y[i, 2 * r, 2 * s + 1, c] > best:
                        best, k = y[i, 2 * r, 2 * s + 1, c], 1
                    if y[i, 2 * r + 1, 2 * s, c] > best:
                        best, k = y[i, 2 * r + 1, 2 * s, c], 2
                    if y[i, 2 * r + 1, 2 * s + 1, c] > best:
                        best, k = y[i, 2 * r + 1, 2 * s + 1, c], 3
                    if relu and not best > 0:
                        best = 0 * best
                    p[i, r, s, c], code[i, r, s, c] = best, k


@compiled
def _statistics_and_pool(y: Array, pivot: Array, p: Array, code: Array) -> Array:
    """Σ (y − pivot), Σ (y − pivot)²; fills p and code. A pivot near the mean keeps the squares small."""
    n, h, w, channels = y.shape
    total, s1, s2 = np.zeros((2, channels)), np.zeros(channels, y.dtype), np.zeros(channels, y.dtype)
    for i in range(n):
        _pool_windows(y[i : i + 1], p[i : i + 1], code[i : i + 1], False)  # y[i] is in the cache from here on
        for r in range(h):
            for s in range(0, w - 1, 2):
                for c in range(channels):
                    d, e = y[i, r, s, c] - pivot[c], y[i, r, s + 1, c] - pivot[c]
                    s1[c] += d + e
                    s2[c] += d * d + e * e
            if w % 2:
                for c in range(channels):
                    d = y[i, r, w - 1, c] - pivot[c]
                    s1[c] += d
                    s2[c] += d * d
        for c in range(channels):
            total[0, c] += s1[c]
            total[1, c] += s2[c]
            s1[c] = s2[c] = 0
    return total


@compiled
def _affine_relu(p: Array, slope: Array, offset: Array, a: Array) -> None:
    n, h, w, channels = p.shape
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    z = p[i, r, s, c] * slope[c] + offset[c]
                    a[i, r, s, c] = z if z > 0 else 0 * z


@compiled
def _gated_sums(d: Array, more: Array, a: Array, u: Array, centre: Array) -> Array:
    """d ← [a > 0] (d + more) and Σ d (u − centre), Σ d; an empty ``more`` is none."""
    n, h, w, channels = d.shape
    total, part, one = np.zeros((2, channels)), np.zeros((2, channels), d.dtype), d.dtype.type
    for i in range(n):
        s1, s0 = part[0], part[1]
        for r in range(h):
            for s in range(w):
                if len(more):
                    for c in range(channels):
                        d[i, r, s, c] += more[i, r, s, c]
                for c in range(channels):
                    d[i, r, s, c] *= one(a[i, r, s, c] > 0)
                    s0[c] += d[i, r, s, c]
                for c in range(channels):
                    s1[c] += d[i, r, s, c] * (u[i, r, s, c] - centre[c])
        for c in range(channels):
            total[0, c] += s1[c]
            total[1, c] += s0[c]
            s1[c] = s0[c] = 0
    return total


@compiled
def _spread(y: Array, c1: Array, c0: Array, dz: Array, code: Array, D: Array) -> None:
    (n, h, w, channels), one = y.shape, y.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                if r // 2 < dz.shape[1] and s // 2 < dz.shape[2]:
                    k = 2 * (r & 1) + (s & 1)
                    for c in range(channels):
                        hit = dz[i, r // 2, s // 2, c] * one(code[i, r // 2, s // 2, c] == k)
                        D[i, r, s, c] = c0[c] + c1[c] * y[i, r, s, c] + hit
                else:  # the odd last row or column, in no window
                    for c in range(channels):
                        D[i, r, s, c] = c0[c] + c1[c] * y[i, r, s, c]


@compiled
def _tangent_sums(yd: Array, more: Array, y: Array, mean: Array, code: Array, pd: Array) -> Array:
    """yd ← yd + more; pd ← yd at the maxima; Σ yd (y − mean), Σ yd; an empty ``more`` is none."""
    n, h, w, channels = y.shape
    total, part = np.zeros((2, channels)), np.zeros((2, channels), y.dtype)
    for i in range(n):
        s1, s0 = part[0], part[1]
        for r in range(h):
            for s in range(w):
                if len(more):
                    for c in range(channels):
                        yd[i, r, s, c] += more[i, r, s, c]
                for c in range(channels):
                    s0[c] += yd[i, r, s, c]
                for c in range(channels):
                    s1[c] += yd[i, r, s, c] * (y[i, r, s, c] - mean[c])
        for c in range(channels):
            total[0, c] += s1[c]
            total[1, c] += s0[c]
            s1[c] = s0[c] = 0
        _gather(yd[i : i + 1], code[i : i + 1], pd[i : i + 1])
    return total


@compiled
def _gather(y: Array, code: Array, p: Array) -> None:
    (n, h, w, channels), one = p.shape, p.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    k = code[i, r, s, c]
                    top = y[i, 2 * r, 2 * s, c] * one(k == 0) + y[i, 2 * r, 2 * s + 1, c] * one(k == 1)
                    bottom = y[i, 2 * r + 1, 2 * s, c] * one(k == 2) + y[i, 2 * r + 1, 2 * s + 1, c] * one(k == 3)
                    p[i, r, s, c] = top + bottom


@compiled
def _gate(p: Array, a: Array) -> None:
    (n, h, w, channels), one = p.shape, p.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    p[i, r, s, c] *= one(a[i, r, s, c] > 0)


@compiled
def _gated_affine(p: Array, a: Array, slope: Array, u: Array, slope_u: Array, offset: Array, dz: Array) -> Array:
    """p ← [a > 0] (slope p + slope_u u + offset) and Σ dz p."""
    n, h, w, channels = p.shape
    total, part, one = np.zeros((1, channels)), np.zeros(channels, p.dtype), p.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    z = slope[c] * p[i, r, s, c] + slope_u[c] * u[i, r, s, c] + offset[c]
                    p[i, r, s, c] = z * one(a[i, r, s, c] > 0)
                for c in range(channels):
                    part[c] += p[i, r, s, c] * dz[i, r, s, c]
        for c in range(channels):
            total[0, c] += part[c]
            part[c] = 0
    return total


@compiled
def _tangent_spread(yd: Array, c1: Array, y: Array, c1d: Array, c0d: Array, dzd: Array, code: Array) -> None:
    (n, h, w, channels), one = y.shape, y.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    yd[i, r, s, c] = c0d[c] + c1d[c] * y[i, r, s, c] + c1[c] * yd[i, r, s, c]
                if r // 2 < dzd.shape[1] and s // 2 < dzd.shape[2]:
                    k = 2 * (r & 1) + (s & 1)
                    for c in range(channels):
                        yd[i, r, s, c] += dzd[i, r // 2, s // 2, c] * one(code[i, r // 2, s // 2, c] == k)


@compiled
def _gated_unpool(d: Array, more: Array, a: Array, code: Array, D: Array) -> Array:
    """D ← scatter(dz), zero elsewhere, and Σ dz, dz = [a > 0] (d + more)."""
    (n, h, w, channels), one = d.shape, d.dtype.type
    total, part, dz = np.zeros((1, channels)), np.zeros(channels, d.dtype), np.zeros(channels, d.dtype)
    for i in range(n):
        for r in range(D.shape[1]):
            for s in range(D.shape[2]):
                if r >= 2 * h or s >= 2 * w:  # the odd last row or column, in no window
                    for c in range(channels):
                        D[i, r, s, c] = 0
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    dz[c] = d[i, r, s, c]
                if len(more):
                    for c in range(channels):
                        dz[c] += more[i, r, s, c]
                for c in range(channels):
                    dz[c] *= one(a[i, r, s, c] > 0)
                    part[c] += dz[c]
                for k in range(4):
                    for c in range(channels):
                        D[i, 2 * r + k // 2, 2 * s + k % 2, c] = dz[c] * one(code[i, r, s, c] == k)
        for c in range(channels):
            total[0, c] += part[c]
            part[c] = 0
    return total


# ---------------------------------------------------------------------------------------------------- tensors
def announce() -> None:
    """Say so in the log if the loops will have to be compiled first."""
    folder = Path(str(_spread.stats.cache_path))
    if not any(folder.glob("loops.*.nbi")):
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
    _run(_pool_windows, u.contiguous(memory_format=CL), a, code, True)
    return a, code


def statistics_and_pool(y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`.ops.statistics_and_pool`."""
    p, code, pivot = _pooled(y, y.dtype), _pooled(y, torch.uint8), y[0].mean((1, 2))
    s1, s2 = torch.from_numpy(_run(_statistics_and_pool, y, pivot, p, code)) / (y.numel() // y.shape[1])
    return (pivot + s1).to(y.dtype), (s2 - s1 * s1).clamp_min_(0).to(y.dtype), p, code


def affine_relu(p: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """:func:`.ops.affine_relu`."""
    a = torch.empty_like(p)
    _run(_affine_relu, p, slope, offset, a)
    return a


def gated_sums_(d: Sequence[Tensor], a: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`.ops.gated_sums_`."""
    dz, more = _more(d)
    s1, s0 = _tensors(_run(_gated_sums, dz, more, a, u, c), dz)
    return dz, s1, s0


def spread(y: Tensor, c1: Tensor, c0: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """:func:`.ops.spread`."""
    D = torch.empty_like(y)
    _run(_spread, y, c1, c0, dz, code, D)
    return D


def tangent_sums_(d: Sequence[Tensor], y: Tensor, mean: Tensor, code: Tensor) -> tuple[Tensor, ...]:
    """:func:`.ops.tangent_sums_`."""
    pd, (yd, more) = _pooled(y, y.dtype), _more(d)
    return yd, pd, *_tensors(_run(_tangent_sums, yd, more, y, mean, code, pd), y)


def gated_gather(yd: Tensor, code: Tensor, a: Tensor) -> Tensor:
    """:func:`.ops.gated_gather`."""
    p = torch.empty_like(a)
    _run(_gather, yd, code, p)
    _run(_gate, p, a)
    return p


def gated_affine_(
    p: Tensor, a: Tensor, slope: Tensor, u: Tensor, slope_u: Tensor, offset: Tensor, dz: Tensor
) -> tuple[Tensor, Tensor]:
    """:func:`.ops.gated_affine_`."""
    [total] = _tensors(_run(_gated_affine, p, a, slope, u, slope_u, offset, dz), p)
    return p, total


def tangent_spread_(yd: Tensor, c1: Tensor, y: Tensor, c1d: Tensor, c0d: Tensor, dzd: Tensor, code: Tensor) -> Tensor:
    """:func:`.ops.tangent_spread_`."""
    _run(_tangent_spread, yd, c1, y, c1d, c0d, dzd, code)
    return yd


def gated_unpool(d: Sequence[Tensor], a: Tensor, code: Tensor, size: torch.Size) -> tuple[Tensor, Tensor]:
    """:func:`.ops.gated_unpool`."""
    dz, more = _more(d)
    D = torch.empty((*a.shape[:2], *size), dtype=a.dtype, memory_format=CL)
    [total] = _tensors(_run(_gated_unpool, dz, more, a, code, D), a)
    return D, total


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
