"""Everything the engine does between two convolutions, as torch operators: statistics, pooling, gathering, scattering.

Activations are [n, channels, h, w], channels-last in memory where the device likes it; per-channel vectors are [channels].
``code`` says where each 2×2 window had its maximum; what it looks like is the business of this file alone (here the
flat index h·W + w that torch returns; one byte in :mod:`anyshot.inner.loops`, the same functions as fused loops).
Functions that end in an underscore overwrite their first argument.
"""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten
CL = torch.channels_last


def ch(t: Tensor) -> Tensor:
    """A per-channel vector against [n, channels, h, w]."""
    return t.view(1, -1, 1, 1)


def gate_(d: Tensor, a: Tensor) -> Tensor:
    """[a > 0] d."""
    return aten.threshold_backward.grad_input(d, a, 0, grad_input=d)


def channel_sums(d: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Σ d (u − c) and Σ d per channel: the reducing half of batch normalisation's backward, one pass on a CPU."""
    if d.device.type == "cpu":
        one, mask = torch.ones_like(c), [False, True, True]
        return aten.native_batch_norm_backward(d, u, None, None, None, c, one, True, 0.0, mask)[1:]
    return (d * (u - ch(c))).sum((0, 2, 3)), d.sum((0, 2, 3))


def pool(y: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of the 2×2 windows (floor: an odd last row or column is in none) and their code."""
    return aten.max_pool2d_with_indices(y, [2, 2], [2, 2])


def pool_relu(u: Tensor) -> tuple[Tensor, Tensor]:
    """relu(pool(u)), code."""
    p, code = pool(u)
    return p.relu_(), code


def statistics_and_pool(y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and biased variance per channel, pool(y), code."""
    if y.device.type == "cpu":
        mean, variance = torch.batch_norm_update_stats(y, None, None, 0.0)
    else:
        variance, mean = torch.var_mean(y, (0, 2, 3), correction=0)
    return mean, variance, *pool(y)


def affine_relu(p: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """relu(slope p + offset)."""
    return torch.addcmul(ch(offset), p, ch(slope)).relu_()


def gated_sums_(d: Tensor, a: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """dz = [a > 0] d, Σ dz (u − c), Σ dz."""
    dz = gate_(d, a)
    return dz, *channel_sums(dz, u, c)


def gated_unpool(d: Tensor, a: Tensor, code: Tensor, y_shape: torch.Size) -> tuple[Tensor, Tensor]:
    """scatter(dz) with dz = [a > 0] d, zero elsewhere, and Σ dz; d may be overwritten."""
    dz = gate_(d, a)
    return aten.max_unpool2d(dz, code, y_shape[2:]), dz.sum((0, 2, 3))


def scatter_add_(D: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """D + scatter(dz)."""
    D.view(*D.shape[:2], -1).scatter_add_(2, code.flatten(2), dz.flatten(2))  # h and w merge in both memory formats
    return D


def gather(y: Tensor, code: Tensor) -> Tensor:
    """y at the pooling maxima, [n, channels, h // 2, w // 2]; one flat gather in channels-last memory."""
    n, c, h, w = y.shape
    start = torch.arange(n, device=y.device)[:, None] * (h * w * c) + torch.arange(c, device=y.device)
    flat = torch.add(start.view(n, c, 1, 1), code, alpha=c).permute(0, 2, 3, 1)
    return y.permute(0, 2, 3, 1).reshape(-1).index_select(0, flat.reshape(-1)).view(flat.shape).permute(0, 3, 1, 2)


def spread(y: Tensor, c1: Tensor, c0: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """D = scatter(dz) + c0 + c1 y."""
    return scatter_add_(torch.addcmul(ch(c0), y, ch(c1)), dz, code)


def tangent_sums_(yd: Tensor, more: Tensor, y: Tensor, mean: Tensor, code: Tensor) -> tuple[Tensor, ...]:
    """y' = yd + more, y' at the pooling maxima, Σ y' (y − mean), Σ y'."""
    yd = yd.add_(more)
    return yd, gather(yd, code), *channel_sums(yd, y, mean)


def gated_gather(yd: Tensor, code: Tensor, a: Tensor) -> Tensor:
    """[a > 0] y' at the pooling maxima."""
    return gate_(gather(yd, code), a)


def gated_affine(a: Tensor, p: Tensor, slope: Tensor, u: Tensor, slope_u: Tensor, offset: Tensor) -> Tensor:
    """[a > 0] (slope p + slope_u u + offset)."""
    return gate_(torch.addcmul(ch(offset), p, ch(slope)).addcmul_(u, ch(slope_u)), a)


def tangent_spread_(
    yd: Tensor, c1: Tensor, y: Tensor, c1d: Tensor, c0d: Tensor, dzd: Tensor, code: Tensor
) -> Tensor:
    """D' = scatter(dz') + c0' + c1' y + c1 y'."""
    return scatter_add_(torch.addcmul(ch(c0d), y, ch(c1d)).addcmul_(yd, ch(c1)), dzd, code)
