"""ResNet-12, the field's other standard: four residual blocks, each of three convolutions beside a 1×1 shortcut."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from anyshot.models.network import Body, Layer, Norm, Parameters

BLOCKS = 4
SLOPE = 0.1  #: of the leaky ReLU
PARTS = ("conv1", "conv2", "conv3", "shortcut")
NAMES = tuple(tuple(f"block{block}_{part}" for part in PARTS) for block in range(1, BLOCKS + 1))


def resnet12(image_size: tuple[int, int], channels: int = 64, image_channels: int = 3) -> Body:
    """Blocks of ``channels`` · 1, 2, 4 and 8 channels, so 64 to 512; a block is one layer for γ.

    Convolutions have no bias: it would cancel under batch statistics.
    """
    units, fan = [], image_channels
    for block, names in enumerate(NAMES):
        width = channels << block
        sizes = ((width, fan, 3, 3), (width, width, 3, 3), (width, width, 3, 3), (width, fan, 1, 1))
        units += [
            Layer(name, size, f"block {block + 1}") for name, size in zip(names, sizes, strict=True)
        ]
        fan = width
    return Body(features, tuple(units), image_size, image_channels)


def features(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
    """The mean over places of the last block; each block halves the side, rounding down."""
    for block, (conv1, conv2, conv3, shortcut) in enumerate(NAMES):
        unit = len(PARTS) * block
        h = F.leaky_relu(norm(unit, F.conv2d(x, theta[conv1], padding=1)), SLOPE)
        h = F.leaky_relu(norm(unit + 1, F.conv2d(h, theta[conv2], padding=1)), SLOPE)
        h = norm(unit + 2, F.conv2d(h, theta[conv3], padding=1))
        x = F.max_pool2d(F.leaky_relu(h + norm(unit + 3, F.conv2d(x, theta[shortcut])), SLOPE), 2)
    return x.mean((2, 3))
