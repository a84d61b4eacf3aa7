"""The backbone of ``quality="best"``: EfficientNet-Lite2 on the image and on its centre."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.classifier.backbones import efficientnet_lite

SIZE = 2  # of the EfficientNet-Lite
MARGIN = 1 / 9  # share of the image that the enlarged centre leaves out on each side


class BestQuality(nn.Module):
    """The mean features of images [n, 3, h, w] and of their enlarged centres."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """[n, 3, h, w] → [n, features of the network]."""
        return (self.network(x) + self.network(enlarge_centre(x))) / 2


def enlarge_centre(x: Tensor) -> Tensor:
    """The centre of images [n, 3, h, w], enlarged to their size."""
    height, width = x.shape[2:]
    top, left = round(MARGIN * height), round(MARGIN * width)
    centre = x[:, :, top : height - top, left : width - left]
    return F.interpolate(centre, (height, width), mode="bilinear", align_corners=False)


def load_pretrained() -> BestQuality:
    """The network with its ImageNet weights."""
    return BestQuality(efficientnet_lite.load_pretrained(SIZE))


def block_widths() -> tuple[int, ...]:
    """Widths of the four blocks of features.

    >>> block_widths()
    (1280, 832, 1080, 720)
    """
    return efficientnet_lite.block_widths(SIZE)
