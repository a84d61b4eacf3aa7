"""Conv4 whose feature vectors all have the same length: only their direction matters."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from anyshot.models.bodies import conv4
from anyshot.models.network import Body, Norm, Parameters


def conv4_unit(image_size: tuple[int, int], channels: int = 32, image_channels: int = 3) -> Body:
    """Return a Conv4 body with the parameters of ``conv4`` and features of length √width.

    >>> conv4_unit((32, 32)).width
    128
    """
    return replace(conv4.conv4(image_size, channels, image_channels), features=features)


def features(theta: Parameters, norm: Norm, x: Tensor) -> Tensor:
    """Return the features of Conv4 [n, width], scaled so that the mean of their squares is 1."""
    f = conv4.features(theta, norm, x)
    return F.normalize(f) * f.shape[1] ** 0.5
