"""Other views of images at test time: the inner steps see them in turn, and answers are averaged over them."""

from __future__ import annotations

import torch
from torch import Tensor

Views = tuple[Tensor, ...]  #: the same images in the same order, each seen another way


def zoomed(images: Tensor, scale: float) -> Tensor:
    """Images [n, channels, height, width] of which the middle fills the frame, ``scale`` of each side of it.

    Bilinear; above 1 the frame is wider than the image, whose edge is repeated.

    >>> zoomed(torch.arange(4.0).view(1, 1, 1, 4), 0.5)
    tensor([[[[0.7500, 1.2500, 1.7500, 2.2500]]]])
    """
    rows, columns = (_weights(side, scale, images) for side in images.shape[2:])
    return rows @ images @ columns.t()


def _weights(side: int, scale: float, like: Tensor) -> Tensor:
    """How much of pixel j is in pixel i of the view, [side, side]: each lies between two, or beyond the edge."""
    centre, places = (side - 1) / 2, torch.arange(side, dtype=torch.float64)
    places = (centre + scale * (places - centre)).clamp(0, side - 1)
    return (1 - (places[:, None] - torch.arange(side)).abs()).clamp(min=0).to(like)
