"""The loops over images between two convolutions, compiled: arrays in, sums out. :mod:`.loops` gives them tensors.

Each loop reads its large arrays once, writes each result once, and works on memory that it is given, [n, h, w,
channels]. The place of a window's maximum takes one byte, 0..3 for its top left, top right, bottom left, bottom right;
the first of equal values wins, as in torch. Sums run in the arrays' own type within an image and in float64 over
images. LLVM makes vector instructions of the innermost loops because they run over channels, touch few arrays each, and
multiply by 0 or 1 (``one(condition)``) instead of branching.
"""

from __future__ import annotations

import numpy as np

from anyshot.inner.jit import Array, compiled


@compiled
def pool_windows(y: Array, p: Array, code: Array, relu: bool) -> None:
    """p ← maxima of the 2×2 windows of y (their ReLU, if asked for), code ← where they are."""
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
def statistics_and_pool(y: Array, pivot: Array, p: Array, code: Array) -> Array:
    """Σ (y − pivot), Σ (y − pivot)²; fills p and code. A pivot near the mean keeps the squares small."""
    n, h, w, channels = y.shape
    total, s1, s2 = np.zeros((2, channels)), np.zeros(channels, y.dtype), np.zeros(channels, y.dtype)
    for i in range(n):
        pool_windows(y[i : i + 1], p[i : i + 1], code[i : i + 1], False)  # y[i] is in the cache from here on
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
def affine_relu(p: Array, slope: Array, offset: Array, a: Array) -> None:
    """a ← relu(slope p + offset)."""
    n, h, w, channels = p.shape
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    z = p[i, r, s, c] * slope[c] + offset[c]
                    a[i, r, s, c] = z if z > 0 else 0 * z


@compiled
def gated_sums(d: Array, more: Array, a: Array, u: Array, centre: Array) -> Array:
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
def spread(y: Array, c1: Array, c0: Array, dz: Array, code: Array, D: Array) -> None:
    """D ← c0 + c1 y + scatter(dz)."""
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
def tangent_sums(yd: Array, more: Array, y: Array, mean: Array, code: Array, pd: Array) -> Array:
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
        gather(yd[i : i + 1], code[i : i + 1], pd[i : i + 1])
    return total


@compiled
def gather(y: Array, code: Array, p: Array) -> None:
    """p ← y at the maxima."""
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
def gate(p: Array, a: Array) -> None:
    """p ← [a > 0] p."""
    (n, h, w, channels), one = p.shape, p.dtype.type
    for i in range(n):
        for r in range(h):
            for s in range(w):
                for c in range(channels):
                    p[i, r, s, c] *= one(a[i, r, s, c] > 0)


@compiled
def gated_affine(p: Array, a: Array, slope: Array, u: Array, slope_u: Array, offset: Array, dz: Array) -> Array:
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
def tangent_spread(yd: Array, c1: Array, y: Array, c1d: Array, c0d: Array, dzd: Array, code: Array) -> None:
    """yd ← c0′ + c1′ y + c1 yd + scatter(dz′)."""
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
