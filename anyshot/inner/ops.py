"""Everything the engine does between two convolutions, as torch operators: statistics, pooling, gathering, scattering.

Activations are [n, channels, h, w], channels-last in memory; per-channel vectors are [channels].
``code`` says where each 2×2 window had its maximum; what it looks like is the business of this file alone (here the
flat index h·W + w that torch returns; one byte in :mod:`anyshot.inner.loops`, the same functions as fused loops).
Functions that end in an underscore overwrite their first argument.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

log = logging.getLogger(__name__)
aten = torch.ops.aten
CL = torch.channels_last
MOST_THREADS = 4  #: of torch, up to which the single-threaded loops pay


def conv(x: Tensor, W: Tensor, bias: Tensor | None = None) -> Tensor:
    """W * x."""
    return F.conv2d(x, W, bias, padding=1)


def conv_dx(dy: Tensor, x: Tensor, W: Tensor) -> Tensor:
    """Wᵀ * dy (x only lends its shape)."""
    return _conv_backward(dy, x, W, [True, False, False])[0]


def conv_dW(dy: Tensor, x: Tensor, W: Tensor) -> Tensor:
    """x ⋆ dy, the correlation (W only lends its shape)."""
    return _conv_backward(dy, x, W, [False, True, False])[1]


def _conv_backward(dy: Tensor, x: Tensor, W: Tensor, mask: list[bool]) -> tuple[Tensor, ...]:
    return aten.convolution_backward(dy, x, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)


def conv_tangent(x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor) -> tuple[Tensor, ...]:
    """W′ * x + W * x′, as one or two summands."""
    return conv(x, Wd), conv(xd, W)


def conv_backward(D: Tensor, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """x ⋆ D and Wᵀ * D."""
    return conv_dW(D, x, W), conv_dx(D, x, W)


def conv_backward_tangent(
    D: Tensor, Dd: Tensor, x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """x ⋆ D′ + x′ ⋆ D, and Wᵀ * D′ + W′ᵀ * D as one or two summands."""
    return conv_dW(Dd, x, W).add_(conv_dW(D, xd, W)), (conv_dx(Dd, x, W), conv_dx(D, x, Wd))


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


def gated_sums_(d: Sequence[Tensor], a: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """dz = [a > 0] Σ d, Σ dz (u − c), Σ dz; d is one or two summands, the first overwritten."""
    dz = gate_(total_(d), a)
    return dz, *channel_sums(dz, u, c)


def total_(d: Sequence[Tensor]) -> Tensor:
    """The sum of one or two tensors, in the first."""
    return d[0] if len(d) == 1 else d[0].add_(d[1])


def gated_correlation(d: Sequence[Tensor], a: Tensor, code: Tensor, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """Σ dz and x ⋆ scatter(dz), the shape of W, with dz = [a > 0] Σ d; d may be overwritten."""
    dz = gate_(total_(d), a)
    return dz.sum((0, 2, 3)), conv_dW(aten.max_unpool2d(dz, code, x.shape[2:]), x, W)


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


def tangent_sums_(d: Sequence[Tensor], y: Tensor, mean: Tensor, code: Tensor) -> tuple[Tensor, ...]:
    """y′ = Σ d, y′ at the pooling maxima, Σ y′ (y − mean), Σ y′."""
    yd = total_(d)
    return yd, gather(yd, code), *channel_sums(yd, y, mean)


def gated_gather(yd: Tensor, code: Tensor, a: Tensor) -> Tensor:
    """[a > 0] y′ at the pooling maxima."""
    return gate_(gather(yd, code), a)


def gated_affine_(
    p: Tensor, a: Tensor, slope: Tensor, u: Tensor, slope_u: Tensor, offset: Tensor, dz: Tensor
) -> tuple[Tensor, Tensor]:
    """t = [a > 0] (slope p + slope_u u + offset) and Σ dz t."""
    t = gate_(torch.addcmul(ch(offset), p, ch(slope)).addcmul_(u, ch(slope_u)), a)
    return t, channel_sums(dz, t, torch.zeros_like(offset))[0]


def tangent_spread_(yd: Tensor, c1: Tensor, y: Tensor, c1d: Tensor, c0d: Tensor, dzd: Tensor, code: Tensor) -> Tensor:
    """D′ = scatter(dz′) + c0′ + c1′ y + c1 y′."""
    return scatter_add_(torch.addcmul(ch(c0d), y, ch(c1d)).addcmul_(yd, ch(c1)), dzd, code)


def fused(W: Tensor) -> ModuleType:
    """The module with these functions for a layer with weights W: :mod:`.loops` on a CPU with Numba, else this one.

    ``ANYSHOT_LOOPS=0`` in the environment keeps to torch. The loops run on one thread, where they nearly halve the
    engine's time; that torch's operators win beyond MOST_THREADS is an estimate, not measured.
    """
    pays = W.device.type == "cpu" and torch.get_num_threads() <= MOST_THREADS
    return loops() if pays else sys.modules[__name__]


def fused_first(W: Tensor) -> ModuleType:
    """The same for layer 1, whose loops take up to three colours and channels in pairs."""
    return fused(W) if W.shape[1] <= 3 and W.shape[0] % 2 == 0 else sys.modules[__name__]


@functools.cache
def loops() -> ModuleType:
    """:mod:`.loops` if Numba is there and not switched off, else this module."""
    if os.environ.get("ANYSHOT_LOOPS", "1") != "0":
        try:
            module = importlib.import_module("anyshot.inner.loops")
            module.announce()
            return module
        except ImportError as error:
            log.info("Without fused loops the engine is nearly twice as slow: %s. Try anyshot[fast].", error)
    return sys.modules[__name__]
