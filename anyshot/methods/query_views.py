"""Views of images for test-time augmentation."""

from __future__ import annotations

import torch
from torch import Tensor

Views = tuple[Tensor, ...]  #: the same images in the same order, each seen another way


def zoom(images: Tensor, scale: float) -> Tensor:
    """Crop the middle ``scale`` of each side of images [n, channels, height, width] and resize it.

    The interpolation is bilinear. A scale above 1 repeats the edge of the image around it.

    >>> zoom(torch.arange(4.0).view(1, 1, 1, 4), 0.5)
    tensor([[[[0.7500, 1.2500, 1.7500, 2.2500]]]])
    """
    rows, columns = (_interpolation_weights(side, scale, images) for side in images.shape[2:])
    return rows @ images @ columns.t()


def _interpolation_weights(side: int, scale: float, like: Tensor) -> Tensor:
    """Weight of pixel j in pixel i of the view, [side, side]."""
    centre = (side - 1) / 2
    positions = torch.arange(side, dtype=torch.float64)
    positions = (centre + scale * (positions - centre)).clamp(0, side - 1)
    return (1 - (positions[:, None] - torch.arange(side)).abs()).clamp(min=0).to(like)
