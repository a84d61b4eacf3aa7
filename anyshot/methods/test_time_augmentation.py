"""Test-time augmentation: views of the images, and the average of their probabilities.

The views are the images themselves, zoomed and shifted ones, and mirror images of all. Methods
learn from the views of the support images and classify the views of the query images. Or the
features of an image are averaged over its views, and methods see the averages alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.inner_loop import InnerProblem, logits_many
from anyshot.models.derived_features import DerivedFeatures
from anyshot.models.network import Parameters

if TYPE_CHECKING:
    from anyshot.methods.base import Method

Views = tuple[Tensor, ...]  #: the same images in the same order, in different views
#: Images [M, channels, height, width] and the index of their view → probabilities [M, way]
Probabilities = Callable[[Tensor, int], Tensor]


DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))  #: rows and columns of a shift


def make_views(
    images: Tensor, zooms: tuple[float, ...], flips: bool, shift: int = 0
) -> Iterator[Tensor]:
    """Yield the views of images [n, channels, height, width].

    These are the images, one view for each zoom, four views that are shifted by ``shift`` pixels
    and, with ``flips``, the mirror image of each.

    >>> [view.flatten().tolist() for view in make_views(torch.tensor([[[[0.0, 1.0]]]]), (), True)]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    for view in _unmirrored_views(images, zooms, shift):
        yield view
        if flips:
            yield view.flip(3)


def _unmirrored_views(images: Tensor, zooms: tuple[float, ...], shift: int) -> Iterator[Tensor]:
    yield images
    for scale in zooms:
        yield zoom(images, scale)
    for rows, columns in DIRECTIONS if shift else ():
        yield move(images, rows * shift, columns * shift)


def average_over_views(classify: Probabilities, views: Iterator[Tensor]) -> Tensor:
    """Average the probabilities [M, way] of the views of M images."""
    return torch.stack([classify(view, i) for i, view in enumerate(views)]).mean(0)


def average_features(features: Sequence[Tensor]) -> Tensor:
    """Average features [n, width] over views; the average gets the mean length of these features.

    Without that it would be shorter, and most for images whose views differ.

    >>> average_features([torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])])
    tensor([[1.4142, 1.4142]])
    """
    stacked = torch.stack(list(features))
    length = torch.linalg.vector_norm(stacked, dim=2).mean(0)
    return F.normalize(stacked.mean(0)) * length[:, None]


def average_softmax(
    problems: Sequence[InnerProblem], thetas: Sequence[Parameters], engine: str = "auto"
) -> Probabilities:
    """Average the softmax over adapted networks.

    If the support set gives the batch statistics, its view is that of the query images.
    """

    def probabilities(images: Tensor, view: int) -> Tensor:
        same_view = [inner.at_view(view) for inner in problems]
        return logits_many(same_view, thetas, images, engine).softmax(2).mean(0)

    return probabilities


def with_averaged_features(method: Method) -> Method:
    """The method whose features are averages over views, if its settings say so; else itself."""
    s = method.settings
    if s.average_views == "probabilities":
        return method
    averaged = DerivedFeatures(method.body.features, average_features, method.views)
    changed = copy.copy(method)  # with the same parameters
    changed.body = replace(method.body, features=averaged)
    changed.settings = replace(s, zooms=(), flips=False, shift=0, average_views="probabilities")
    return changed


def move(images: Tensor, rows: int, columns: int) -> Tensor:
    """Move images [n, channels, height, width] by some pixels; the edge of the image is repeated.

    >>> move(torch.arange(4.0).view(1, 1, 1, 4), 0, 1)
    tensor([[[[0., 0., 1., 2.]]]])
    """
    sources = (
        (torch.arange(side, device=images.device) - offset).clamp(0, side - 1)
        for side, offset in zip(images.shape[2:], (rows, columns), strict=True)
    )
    down, right = sources
    return images[:, :, down][..., right]


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
