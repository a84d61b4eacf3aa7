"""Conv4 whose feature vectors all have the same length: only their direction matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from anyshot.models.bodies import conv4
from anyshot.models.derived_features import DerivedFeatures
from anyshot.models.network import Body


def conv4_unit(image_size: tuple[int, int], channels: int = 32, image_channels: int = 3) -> Body:
    """Return a Conv4 body with the parameters of ``conv4`` and features of length √width.

    >>> conv4_unit((32, 32)).width
    128
    """
    return replace(conv4.conv4(image_size, channels, image_channels), features=features)


def unit_length(views: Sequence[Tensor]) -> Tensor:
    """Scale the features [n, width] of one view so that the mean of their squares is 1."""
    [f] = views
    return F.normalize(f) * f.shape[1] ** 0.5


#: (θ, norm, images) → features of Conv4 [n, width] at length √width
features = DerivedFeatures(conv4.features, unit_length)
