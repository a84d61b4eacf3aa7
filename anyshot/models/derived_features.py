"""Features that are computed from those of another body, which the engine may compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from anyshot.models.network import Features, Norm, Parameters


def alone(images: Tensor) -> tuple[Tensor]:
    """One view of the images: themselves."""
    return (images,)


@dataclass(frozen=True)
class DerivedFeatures:
    """A function of the features of a base body, for one or several views of the images.

    Parameters
    ----------
    base : callable
        (θ, norm, images) → features [n, width] of the base body.
    combine : callable
        Features of each view → features [n, width].
    views : callable
        Images → their views. Default: the images alone.

    Examples
    --------
    >>> import torch
    >>> doubled = DerivedFeatures(lambda theta, norm, x: x.flatten(1), lambda views: 2 * views[0])
    >>> doubled({}, Norm([]), torch.ones(1, 1, 1, 2))
    tensor([[2., 2.]])
    """

    base: Features
    combine: Callable[[Sequence[Tensor]], Tensor]
    views: Callable[[Tensor], Iterable[Tensor]] = alone

    def __call__(self, theta: Parameters, norm: Norm, images: Tensor) -> Tensor:
        """Features [n, width] of images [n, channels, height, width]."""
        return self.combine([self.base(theta, norm, view) for view in self.views(images)])
