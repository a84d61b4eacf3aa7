"""Conv4, the paper's body: four blocks of *3×3 convolution → normalisation → scale, shift → ReLU → 2×2 max-pool*."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from anyshot.models.network import Body, Layer, Norm, Parameters

LAYERS = 4  #: convolution blocks
CONV_WEIGHTS = tuple(f"conv{layer}_weight" for layer in range(1, LAYERS + 1))
CONV_BIASES = tuple(f"conv{layer}_bias" for layer in range(1, LAYERS + 1))


def conv4(image_size: tuple[int, int], channels: int = 32, image_channels: int = 3) -> Body:
    """Conv4 of any number of channels; the fast engine does the same."""
    units, fan = [], image_channels
    for layer, (weight, bias) in enumerate(zip(CONV_WEIGHTS, CONV_BIASES, strict=True), 1):
        units.append(Layer(weight, (channels, fan, 3, 3), f"conv {layer}", bias))
        fan = channels
    return Body(features, tuple(units), image_size, image_channels)


def features(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
    """Flattened body output; each block halves the side, rounding down.

    The convolution's bias cancels under batch statistics, so it is left out: that is its exact zero gradient.
    """
    for layer, weight in enumerate(CONV_WEIGHTS):
        x = F.max_pool2d(F.relu(norm(layer, F.conv2d(x, theta[weight], padding=1))), 2)
    return x.flatten(1)
