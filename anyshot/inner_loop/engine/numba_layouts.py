"""Memory layouts of the compiled kernels: activations in blocks of eight channels, images as rows.

docs/engine.md draws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyshot.inner_loop.engine.numba_kernels import first_layer
from anyshot.inner_loop.engine.numba_kernels.compile import Array
from anyshot.inner_loop.engine.numba_kernels.values import LANES
from anyshot.inner_loop.engine.numba_kernels.winograd import OUTPUT_SIDE


@dataclass
class Activation:
    """An activation, or its tangent or cotangent: height × width pixels in a border of zeros."""

    values: Array  #: [n, channels / 8, 4 rows + 2, 4 columns + 2, 8]
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.values)

    def empty_like(self) -> Activation:
        """Uninitialised memory for another of the same size."""
        return Activation(np.empty_like(self.values), self.height, self.width)


def empty_activation(n: int, blocks: int, height: int, width: int, dtype: np.dtype) -> Activation:
    """Uninitialised memory for n images of ``blocks`` blocks of eight channels."""
    padded_height = -(-height // OUTPUT_SIDE) * OUTPUT_SIDE + 2
    padded_width = -(-width // OUTPUT_SIDE) * OUTPUT_SIDE + 2
    values = np.empty((n, blocks, padded_height, padded_width, LANES), dtype)
    return Activation(values, height, width)


def to_backend(t: Tensor) -> Array:
    """:func:`.torch_ops.to_backend`: weights become [outputs, 3, 3, inputs]."""
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).contiguous().numpy()


def from_backend(a: Array) -> Tensor:
    """:func:`.torch_ops.from_backend`."""
    return torch.from_numpy(a).permute(0, 3, 1, 2) if a.ndim == 4 else torch.from_numpy(a)


def features(a: Activation) -> Tensor:
    """:func:`.torch_ops.features`."""
    inside = a.values[:, :, 1 : a.height + 1, 1 : a.width + 1].transpose(0, 1, 4, 2, 3)
    return torch.from_numpy(inside.reshape(len(a), -1))


def from_features(d: Tensor, a: Activation) -> Activation:
    """:func:`.torch_ops.from_features`."""
    to = a.empty_like()
    blocks = a.values.shape[1]
    inside = d.numpy().reshape(len(a), blocks, LANES, a.height, a.width).transpose(0, 1, 3, 4, 2)
    # The border of a cotangent is never read.
    to.values[:, :, 1 : a.height + 1, 1 : a.width + 1] = inside
    return to


@dataclass
class Images:
    """Images as rows of pixels."""

    values: Array  #: [n, height, width · colours]
    colours: int

    def multiplications(self, channels: int) -> int:
        """Multiplications of a direct convolution of one image to this number of channels."""
        return 9 * channels * self.values[0].size

    def padded_buffer(self, dtype: Any = None) -> Array:
        """Memory for one image with a border of zeros, and for the reads beyond its end."""
        _, height, numbers = self.values.shape
        return np.zeros(
            (height + 4) * (numbers + 2 * self.colours) + 2 * first_layer.REACH,
            dtype or self.values.dtype,
        )


def image_layout(x: Tensor) -> Images:
    """:func:`.torch_ops.image_layout`."""
    n, colours, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).contiguous()  # kernels expect memory without gaps
    return Images(rows.view(n, height, width * colours).numpy(), colours)
