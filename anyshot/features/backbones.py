"""A backbone turns square pixels into vectors and is frozen: a name, a module, or a function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anyshot.errors import AnyshotError
from anyshot.features import efficientnet_lite
from anyshot.settings import suggestion

Function = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Backbone:
    """uint8 [n, side, side, 3] → float32 [n, width]. The fingerprint tells all that changes a number: weights and size."""

    name: str
    side: int
    width: int
    fingerprint: str
    compute: Function

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of a batch of pixels."""
        return self.compute(pixels)


def _lite(size: int, side: int | None, device: str) -> Backbone:
    side = side or 224
    network = efficientnet_lite.pretrained(size).to(device)

    def compute(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            x = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float().sub_(127).div_(128)
            return network(x).cpu().numpy()

    name = f"efficientnet-lite{size}"
    return Backbone(name, side, efficientnet_lite.WIDTH, f"{name}-{side}", compute)


#: name → maker of (side or None for its own, device)
BACKBONES: dict[str, Callable[[int | None, str], Backbone]] = {
    f"efficientnet-lite{size}": lambda side, device, size=size: _lite(size, side, device) for size in (0, 1, 2)
}


def open_backbone(name: str, *, side: int | None = None, device: str = "cpu") -> Backbone:
    """A backbone by name."""
    if name in BACKBONES:
        return BACKBONES[name](side, device)
    raise AnyshotError(f"There is no backbone {name!r}{suggestion(name, BACKBONES)}")
