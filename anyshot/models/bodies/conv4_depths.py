"""Conv4 whose features come from three depths, so that a task can rely on each as far as it helps.

On images unlike those of pre-training, the third block and the fourth block before its pooling say
more about the classes than the pooled output of the fourth block.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.models.bodies.conv4 import CONV_WEIGHTS, conv4
from anyshot.models.network import Body, Norm, Parameters


def conv4_depths(image_size: tuple[int, int], channels: int = 32, image_channels: int = 3) -> Body:
    """Return a Conv4 body with the parameters of ``conv4`` and the features of three depths.

    >>> body = conv4_depths((32, 32))
    >>> body.head_parts, body.width
    ({'conv 3': 512, 'conv 4 unpooled': 512, 'conv 4': 128}, 1152)
    """
    height, width = (side // 8 for side in image_size)  # after three poolings
    last = channels * (height // 2) * (width // 2)
    parts = (
        ("conv 3", channels * height * width),
        ("conv 4 unpooled", channels * height * width),
        ("conv 4", last),
    )
    return replace(conv4(image_size, channels, image_channels), features=features, parts=parts)


def features(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
    """Return block 3, block 4 before its pooling and block 4, flattened and joined, [n, width]."""
    *first, last = CONV_WEIGHTS
    for layer, weight in enumerate(first):
        x = F.max_pool2d(F.relu(norm(layer, F.conv2d(x, theta[weight], padding=1))), 2)
    unpooled = F.relu(norm(len(first), F.conv2d(x, theta[last], padding=1)))
    return torch.cat([part.flatten(1) for part in (x, unpooled, F.max_pool2d(unpooled, 2))], 1)
