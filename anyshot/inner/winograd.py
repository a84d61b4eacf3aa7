"""3×3 convolutions with a quarter of the multiplications: Winograd's minimal filtering F(4×4, 3×3), with Numba.

With the Toom–Cook matrices A, B, G of six points, a 4×4 tile of the output Y comes from a 6×6 tile of the input d, the
input's tiles overlapping by two, and everything in between is a product of matrices over the channels, one for each of
the 36 places of a tile (⊙; rows are tiles):

    U = G W Gᵀ,   V = Bᵀ d B,   M = V ⊙ U,   Y = Aᵀ M A

These are linear maps, so the halves of the backward pass are their transposes: with Z = A D Aᵀ of the cotangent D

    x ⋆ D = Gᵀ (Vᵀ ⊙ Z) G,      Wᵀ * D = overlapping sum of B (Z ⊙ Uᵀ) Bᵀ

which is exact algebra: float64 agrees with a direct convolution to 1e-14. In float32 rounding is some four times that
of a direct convolution (root mean square 5e-7 of the output's deviation) with the points 0, ±2/3, ±3/2, ∞; the
textbook's 0, ±1, ±2, ∞ would be twice as bad. Sums of two convolutions are added up before the last transformation.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from anyshot.inner.jit import Array
from anyshot.inner.tiles import (
    FREQUENCIES,
    OUT,
    G,
    input_cotangent,
    input_tiles,
    output_cotangent,
    output_tiles,
)

CHUNK = 256  #: tiles in flight: 1.2 MB for each of V, Z and M at 32 channels


def fits(W: Tensor) -> bool:
    """Whether the channels fill whole vectors."""
    return W.shape[0] % 8 == 0 and W.shape[1] % 8 == 0


@functools.cache
def _GG(dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.kron(G, G)).to(dtype)  # [36, 9]


def _filters(W: Tensor) -> Tensor:
    """U = G W Gᵀ [36, inputs, outputs]."""
    return (_GG(W.dtype) @ W.reshape(-1, 9).t()).view(FREQUENCIES, *W.shape[:2]).transpose(1, 2)


def _weights(dU: Tensor) -> Tensor:
    """Its transpose Gᵀ dU G [outputs, inputs, 3, 3]."""
    inputs, outputs = dU.shape[1:]
    dW = (_GG(dU.dtype).t() @ dU.view(FREQUENCIES, -1)).view(3, 3, inputs, outputs).permute(3, 2, 0, 1)
    return dW.contiguous(memory_format=torch.channels_last)


_kept = threading.local()


def _memory(name: str, size: int, like: Tensor) -> Tensor:
    """This thread's memory of that name, the same at every call: no page faults, and warm in the cache."""
    flat = getattr(_kept, name, None)
    if flat is None or len(flat) < size or flat.dtype != like.dtype:
        with torch.inference_mode(False):  # or it could not be written to outside of that mode
            flat = torch.empty(size, dtype=like.dtype)
        setattr(_kept, name, flat)
    return flat[:size]


class _Chunks:
    """Images a few at a time, with buffers [36, tiles, channels] that are used again."""

    def __init__(self, x: Tensor) -> None:
        self.tiles = -(-x.shape[2] // OUT) * -(-x.shape[3] // OUT)
        self.step, self.n, self.like = max(1, CHUNK // self.tiles), len(x), x
        self.buffers: dict[tuple[str, int], tuple[Tensor, Array]] = {}

    def __iter__(self) -> Iterator[None]:
        for start in range(0, self.n, self.step):
            self.part = slice(start, start + self.step)
            self.rows = (min(self.step, self.n - start) * self.tiles) | 1  # odd: planes a power of two apart would
            yield  # all fall on the same few lines of the cache

    def buffer(self, name: str, channels: int) -> tuple[Tensor, Array]:
        """This chunk's memory of that name, as tensor and as array."""
        key = (name, self.rows)
        if key not in self.buffers:
            flat = _memory(name, FREQUENCIES * self.rows * channels, self.like)
            tensor = flat.view(FREQUENCIES, self.rows, channels)
            self.buffers[key] = tensor, tensor.numpy()
            self.buffers[key][1][:, -1] = 0  # the odd row, where it is none of the tiles, stays zero
        return self.buffers[key]

    def map(self, loop: Callable[[Array, Array], None], name: str, images: Array) -> Tensor:
        """The chunk's tiles, transformed, in the buffer of this name."""
        tensor, array = self.buffer(name, images.shape[3])
        loop(images[self.part], array)
        return tensor

    def write(self, loop: Callable[[Array, Array], None], images: Array, *pairs: tuple[Tensor, Tensor]) -> None:
        """Transform Σ left ⊙ right back into the chunk's images."""
        (left, right), *more = pairs
        total, array = self.buffer("product", right.shape[2])
        torch.bmm(left, right, out=total)
        for left, right in more:
            total.baddbmm_(left, right)
        loop(array, images[self.part])


def _images(t: Tensor) -> Array:
    return t.permute(0, 2, 3, 1).numpy()


def _like(x: Tensor, channels: int) -> tuple[Tensor, Array]:
    images = x.new_empty((len(x), *x.shape[2:], channels))
    return images.permute(0, 3, 1, 2), images.numpy()


def conv(x: Tensor, W: Tensor) -> Tensor:
    """W * x."""
    (y, to), xs, U, chunks = _like(x, len(W)), _images(x), _filters(W), _Chunks(x)
    for _ in chunks:
        chunks.write(output_tiles, to, (chunks.map(input_tiles, "V", xs), U))
    return y


def conv_tangent(x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor) -> tuple[Tensor]:
    """W′ * x + W * x′."""
    (yd, to), xs, xds, chunks = _like(x, len(W)), _images(x), _images(xd), _Chunks(x)
    U, Ud = _filters(W), _filters(Wd)
    for _ in chunks:
        V, Vd = chunks.map(input_tiles, "V", xs), chunks.map(input_tiles, "Vd", xds)
        chunks.write(output_tiles, to, (V, Ud), (Vd, U))
    return (yd,)


def conv_backward(D: Tensor, x: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """x ⋆ D and Wᵀ * D."""
    (dx, to), xs, Ds, chunks = _like(x, x.shape[1]), _images(x), _images(D), _Chunks(x)
    Ut = _filters(W).transpose(1, 2)
    dU = x.new_zeros(FREQUENCIES, x.shape[1], len(W))
    for _ in chunks:
        V, Z = chunks.map(input_tiles, "V", xs), chunks.map(output_cotangent, "Z", Ds)
        dU.baddbmm_(V.transpose(1, 2), Z)
        chunks.write(input_cotangent, to, (Z, Ut))
    return _weights(dU), dx


def conv_backward_tangent(
    D: Tensor, Dd: Tensor, x: Tensor, xd: Tensor, W: Tensor, Wd: Tensor
) -> tuple[Tensor, tuple[Tensor]]:
    """x ⋆ D′ + x′ ⋆ D and Wᵀ * D′ + W′ᵀ * D."""
    (dxd, to), chunks = _like(x, x.shape[1]), _Chunks(x)
    xs, xds, Ds, Dds = _images(x), _images(xd), _images(D), _images(Dd)
    Ut, Udt = _filters(W).transpose(1, 2), _filters(Wd).transpose(1, 2)
    dU = x.new_zeros(FREQUENCIES, x.shape[1], len(W))
    for _ in chunks:
        V, Vd = chunks.map(input_tiles, "V", xs), chunks.map(input_tiles, "Vd", xds)
        Z, Zd = chunks.map(output_cotangent, "Z", Ds), chunks.map(output_cotangent, "Zd", Dds)
        dU.baddbmm_(V.transpose(1, 2), Zd).baddbmm_(Vd.transpose(1, 2), Z)
        chunks.write(input_cotangent, to, (Zd, Ut), (Z, Udt))
    return _weights(dU), (dxd,)
