"""Test-time augmentation: views of the images, and the average of their probabilities.

The views are the images themselves, zoomed ones, and mirror images of both. Methods learn from the
views of the support images and classify the views of the query images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Views = tuple[Tensor, ...]  #: the same images in the same order, in different views
#: Images [M, channels, height, width] and the index of their view → probabilities [M, way]
Probabilities = Callable[[Tensor, int], Tensor]


def make_views(images: Tensor, zooms: tuple[float, ...], flips: bool) -> Iterator[Tensor]:
    """Yield the views of images [n, channels, height, width].

    These are the images, one view for each zoom and, with ``flips``, the mirror image of each.

    >>> [view.flatten().tolist() for view in make_views(torch.tensor([[[[0.0, 1.0]]]]), (), True)]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    for scale in (1.0, *zooms):
        view = images if scale == 1 else zoom(images, scale)
        yield view
        if flips:
            yield view.flip(3)


def average_over_views(classify: Probabilities, views: Iterator[Tensor]) -> Tensor:
    """Average the probabilities [M, way] of the views of M images."""
    return torch.stack([classify(view, i) for i, view in enumerate(views)]).mean(0)


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
