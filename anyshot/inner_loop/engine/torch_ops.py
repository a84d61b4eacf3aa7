"""The engine's operations on images by torch operators, on any device.

Activations are [n, channels, h, w], channels-last in memory; per-channel vectors are [channels].
``code`` holds the position of the maximum in each 2×2 window, here the flat index h·W + w that
torch returns. :mod:`.numba_ops` has the same functions as compiled kernels, with other layouts for
activations and codes. So only these two modules look inside an activation or a code.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.models.norm import EPS

aten = torch.ops.aten
CHANNELS_LAST = torch.channels_last
#: pixels of layer 1 processed at a time (16 images of 32×32): 2 MB of float32 at 32 channels
CHUNK = 1 << 14


def conv(x: Tensor, W: Tensor, bias: Tensor | None = None) -> Tensor:
    """W * x."""
    return F.conv2d(x, W, bias, padding=1)


def conv_dx(dy: Tensor, x: Tensor, W: Tensor) -> Tensor:
    """Wᵀ * dy (of x only the shape is used)."""
    return _conv_backward(dy, x, W, [True, False, False])[0]


def conv_dW(dy: Tensor, x: Tensor, W: Tensor) -> Tensor:
    """x ⋆ dy, the correlation (of W only the shape is used)."""
    return _conv_backward(dy, x, W, [False, True, False])[1]


def _conv_backward(dy: Tensor, x: Tensor, W: Tensor, mask: list[bool]) -> tuple[Tensor, ...]:
    return aten.convolution_backward(dy, x, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)


def to_backend(t: Tensor) -> Tensor:
    """A parameter in this module's layout."""
    return t


def from_backend(t: Tensor) -> Tensor:
    """The inverse of :func:`to_backend`."""
    return t


def image_layout(x: Tensor) -> Tensor:
    """Images [n, c, h, w] in the layout that the functions for layer 1 take."""
    return x.contiguous(memory_format=CHANNELS_LAST)


def inverse_deviation(variance: Tensor) -> Tensor:
    """r = (σ² + ε)^−½; rounding may have left a variance just below zero."""
    return (variance.clamp_min(0) + EPS).rsqrt()


def per_channel(t: Tensor) -> Tensor:
    """A per-channel vector, broadcastable to [n, channels, h, w]."""
    return t.view(1, -1, 1, 1)


def relu_mask_(d: Tensor, a: Tensor) -> Tensor:
    """[a > 0] d, in place."""
    return aten.threshold_backward.grad_input(d, a, 0, grad_input=d)


def channel_sums(d: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Σ d (u − c) and Σ d per channel: the reductions of batch norm's backward pass."""
    if d.device.type == "cpu":
        one = torch.ones_like(c)
        mask = [False, True, True]  # one pass over the data
        return aten.native_batch_norm_backward(d, u, None, None, None, c, one, True, 0.0, mask)[1:]
    return (d * (u - per_channel(c))).sum((0, 2, 3)), d.sum((0, 2, 3))


def pool(y: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of the 2×2 windows and their code; an odd last row or column is dropped."""
    return aten.max_pool2d_with_indices(y, [2, 2], [2, 2])


def scatter_add_(D: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """D + scatter(dz)."""
    # h and w merge in both memory formats
    D.view(*D.shape[:2], -1).scatter_add_(2, code.flatten(2), dz.flatten(2))
    return D


def gather(y: Tensor, code: Tensor) -> Tensor:
    """y at the pooling maxima, [n, channels, h // 2, w // 2]; one flat gather in memory."""
    n, c, h, w = y.shape
    start = torch.arange(n, device=y.device)[:, None] * (h * w * c) + torch.arange(
        c, device=y.device
    )
    flat = torch.add(start.view(n, c, 1, 1), code, alpha=c).permute(0, 2, 3, 1)
    return (
        y.permute(0, 2, 3, 1)
        .reshape(-1)
        .index_select(0, flat.reshape(-1))
        .view(flat.shape)
        .permute(0, 3, 1, 2)
    )


def features(a: Tensor) -> Tensor:
    """The last block's output [n, features]."""
    return a.flatten(1)


def from_features(d: Tensor, a: Tensor) -> Tensor:
    """A cotangent of the features as a cotangent of the last block's output a."""
    return d.view(a.shape).contiguous(memory_format=CHANNELS_LAST)


# ---------------------------------------------------------------------- layer 1
def _chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few images at a time, with their other tensors, so that intermediates stay cached."""
    images = max(1, CHUNK // tensors[0][0, 0].numel())
    return zip(*(t.split(images) for t in tensors), strict=True)


def patch_moments(x: Tensor, chunk: int = 16) -> tuple[Tensor, Tensor]:
    """Mean [1, c, 3, 3] and covariance [9c, 9c] of zero-padded 3×3 patches, summed in float64."""
    n, c, h, w = x.shape
    wide = x.dtype if x.device.type == "mps" else torch.float64  # MPS has no float64

    def windows(t: Tensor) -> Tensor:  # [n, 9c, h·w]
        return F.pad(t, (1, 1, 1, 1)).unfold(2, h, 1).unfold(3, w, 1).reshape(len(t), 9 * c, h * w)

    m = windows(x.sum(0, keepdim=True, dtype=wide).contiguous())[0].sum(1) / (n * h * w)
    M = torch.zeros(9 * c, 9 * c, dtype=wide, device=x.device)
    for part in x.contiguous().split(chunk):
        U = windows(part)
        M += torch.bmm(U, U.transpose(1, 2)).sum(0)
    S = M / (n * h * w) - torch.outer(m, m)
    return m.to(x.dtype).view(1, c, 3, 3), S.to(x.dtype)


def first_forward(x: Tensor, V: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """relu(pool(V * x) + offset) and the code of the maxima."""
    a, code = (
        torch.cat(t)
        for t in zip(*(pool(conv(part, V, offset)) for (part,) in _chunks(x)), strict=True)
    )
    return a.relu_(), code


def first_tangent(x: Tensor, V: Tensor, offset: Tensor, a: Tensor, code: Tensor) -> Tensor:
    """[a > 0] (V * x at the maxima + offset)."""
    return relu_mask_(
        torch.cat([gather(conv(part, V, offset), at) for part, at in _chunks(x, code)]), a
    )


def gated_correlation(
    d: Tensor, a: Tensor, code: Tensor, x: Tensor, W: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ dz and x ⋆ scatter(dz), the shape of W, with dz = [a > 0] d; d is overwritten."""
    G, dz = torch.zeros_like(W), relu_mask_(d, a)
    for part, dz_part, at in _chunks(x, dz, code):
        G += conv_dW(aten.max_unpool2d(dz_part, at, x.shape[2:]), part, W)
    return dz.sum((0, 2, 3)), G


# ---------------------------------------------------------------------- layers 2–4
def forward(x: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int]:
    """y = W * x, its mean and biased variance per channel, pool(y), code; values per channel."""
    y = conv(x, W)
    if y.device.type == "cpu":
        mean, variance = torch.batch_norm_update_stats(y, None, None, 0.0)
    else:
        variance, mean = torch.var_mean(y, (0, 2, 3), correction=0)
    return y, mean, variance, *pool(y), y.numel() // len(W)


def affine_relu(p: Tensor, slope: Tensor, offset: Tensor, x: Tensor) -> Tensor:
    """relu(slope p + offset); x, the block's input, has twice its size."""
    return torch.addcmul(per_channel(offset), p, per_channel(slope)).relu_()


def gated_sums(d: Tensor, a: Tensor, p: Tensor, mean: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """dz = [a > 0] d, Σ dz (p − mean), Σ dz; d is overwritten."""
    dz = relu_mask_(d, a)
    return dz, *channel_sums(dz, p, mean)


def backward(
    x: Tensor, W: Tensor, y: Tensor, c1: Tensor, c0: Tensor, dz: Tensor, code: Tensor
) -> tuple[Tensor, Tensor]:
    """x ⋆ D and Wᵀ * D, with D = scatter(dz) + c0 + c1 y."""
    D = scaled_dy(y, c1, c0, dz, code)
    return conv_dW(D, x, W), conv_dx(D, x, W)


def scaled_dy(y: Tensor, c1: Tensor, c0: Tensor, dz: Tensor, code: Tensor) -> Tensor:
    """D = scatter(dz) + c0 + c1 y."""
    return scatter_add_(torch.addcmul(per_channel(c0), y, per_channel(c1)), dz, code)


def tangent(
    x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor, y: Tensor, mean: Tensor, p: Tensor, code: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y′ = W′ * x + W * x′, y′ at the pooling maxima, Σ y′ (y − mean), Σ y′."""
    yd = conv(x, Wd).add_(conv(xd, W))
    return yd, gather(yd, code), *channel_sums(yd, y, mean)


def gated_affine(
    pd: Tensor,
    a: Tensor,
    slope: Tensor,
    p: Tensor,
    slope_p: Tensor,
    offset: Tensor,
    dz: Tensor,
    scale: Tensor,
) -> tuple[Tensor, Tensor]:
    """scale t and Σ dz t, with t = [a > 0] (slope p′ + slope_p p + offset)."""
    t = relu_mask_(
        torch.addcmul(per_channel(offset), pd, per_channel(slope)).addcmul_(
            p, per_channel(slope_p)
        ),
        a,
    )
    total = channel_sums(dz, t, torch.zeros_like(offset))[0]
    return t.mul_(per_channel(scale)), total


def tangent_backward(
    x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor, y: Tensor, yd: Tensor, c: tuple[Tensor, ...],
    dz: Tensor, dzd: Tensor, code: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x ⋆ D′ + x′ ⋆ D and Wᵀ * D′ + W′ᵀ * D, with D′ = scatter(dz′) + c0′ + c1′ y + c1 y′.

    c = c1, c0, c1′, c0′.
    """
    c1, c0, c1d, c0d = c
    D = scaled_dy(y, c1, c0, dz, code)
    Dd = scaled_dy(y, c1d, c0d, dzd, code).addcmul_(yd, per_channel(c1))
    return conv_dW(Dd, x, W).add_(conv_dW(D, xd, W)), conv_dx(Dd, x, W).add_(conv_dx(D, x, Wd))
