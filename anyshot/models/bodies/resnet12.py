"""ResNet-12: four residual blocks of three 3×3 convolutions with a 1×1 shortcut."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from anyshot.models.network import Body, Layer, Norm, Parameters

BLOCKS = 4
SLOPE = 0.1  #: of the leaky ReLU
PARTS = ("conv1", "conv2", "conv3", "shortcut")
NAMES = tuple(tuple(f"block{block}_{part}" for part in PARTS) for block in range(1, BLOCKS + 1))


def resnet12(image_size: tuple[int, int], channels: int = 64, image_channels: int = 3) -> Body:
    """Return a ResNet-12 body whose blocks have 1, 2, 4 and 8 times ``channels`` channels.

    All convolutions of a block share one learning-rate multiplier γ. They have no bias, because it
    would cancel under batch statistics.

    >>> resnet12((84, 84)).width
    512
    """
    layers = []
    inputs = image_channels
    for block, names in enumerate(NAMES):
        width = channels << block
        square = (width, width, 3, 3)
        sizes = ((width, inputs, 3, 3), square, square, (width, inputs, 1, 1))
        for name, size in zip(names, sizes, strict=True):
            layers.append(Layer(name, size, f"block {block + 1}"))
        inputs = width
    return Body(features, tuple(layers), image_size, image_channels)


def features(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
    """Return the mean of the last block over positions, [n, 8 · channels]."""
    for block, (conv1, conv2, conv3, shortcut) in enumerate(NAMES):
        layer = len(PARTS) * block
        h = F.leaky_relu(norm(layer, F.conv2d(x, theta[conv1], padding=1)), SLOPE)
        h = F.leaky_relu(norm(layer + 1, F.conv2d(h, theta[conv2], padding=1)), SLOPE)
        h = norm(layer + 2, F.conv2d(h, theta[conv3], padding=1))
        h = h + norm(layer + 3, F.conv2d(x, theta[shortcut]))
        x = F.max_pool2d(F.leaky_relu(h, SLOPE), 2)
    return x.mean((2, 3))
