"""Transformations that make a whole task unlike the images that a backbone was trained on.

All images of a task are changed in the same way, so that its classes remain different. A
meta-learner that sees such tasks learns what to do where the backbone's last layer helps little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

Images = NDArray[np.uint8]  #: [n, height, width, 3]
Transformation = Callable[[Images], Images]

SMALLEST_CROP = 0.3  #: side of a crop, as a share of the side
LARGEST_CROP = 0.55
CONTRAST = 0.22  #: standard deviation of a filtered image around its middle grey
EDGE_GAIN = 2.5  #: brightness of edges


def draw_transformation(rng: np.random.Generator) -> Transformation:
    """Draw one of five transformations: inverted, edges, filtered, cropped, turned.

    >>> images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    >>> changed = draw_transformation(np.random.default_rng(1))(images)
    >>> changed.shape, changed.dtype, bool((changed != images).any())
    ((2, 32, 32, 3), dtype('uint8'), True)
    """
    kinds = (invert_colours, keep_edges, filter_randomly, crop_closely, turn)
    return kinds[rng.integers(len(kinds))](rng)


def invert_colours(rng: np.random.Generator) -> Transformation:
    """Negative images with exchanged colour channels."""
    order = rng.permutation(3)
    return lambda images: 255 - images[..., order]


def keep_edges(rng: np.random.Generator) -> Transformation:
    """Brightness differences of neighbouring pixels, bright on dark or dark on bright."""
    dark = rng.random() < 0.5

    def transform(images: Images) -> Images:
        grey = images.astype(np.float32).mean(-1)
        across = np.abs(np.diff(grey, axis=2, append=grey[:, :, -1:]))
        down = np.abs(np.diff(grey, axis=1, append=grey[:, -1:]))
        edges = (EDGE_GAIN * (across + down)).clip(0, 255).astype(np.uint8)
        edges = edges[..., None].repeat(3, -1)
        return 255 - edges if dark else edges

    return transform


def filter_randomly(rng: np.random.Generator) -> Transformation:
    """A random 5×5 filter that mixes the channels, with the contrast of a photograph."""
    weight = torch.from_numpy(rng.normal(size=(3, 3, 5, 5)).astype(np.float32))

    def transform(images: Images) -> Images:
        x = F.conv2d(_to_float(images), weight, padding=2)
        mean = x.mean((0, 2, 3), keepdim=True)
        deviation = x.std((0, 2, 3), keepdim=True)
        return _to_uint8(255 * (0.5 + CONTRAST * (x - mean) / (deviation + 1e-3)))

    return transform


def crop_closely(rng: np.random.Generator) -> Transformation:
    """The same small crop of every image, enlarged."""
    share = rng.uniform(SMALLEST_CROP, LARGEST_CROP)
    top, left = rng.random(2)

    def transform(images: Images) -> Images:
        _, height, width, _ = images.shape
        rows, columns = (max(2, round(share * side)) for side in (height, width))
        i, j = int(top * (height - rows)), int(left * (width - columns))
        crop = _to_float(images[:, i : i + rows, j : j + columns])
        return _to_uint8(F.interpolate(crop, size=(height, width), mode="bilinear"))

    return transform


def turn(rng: np.random.Generator) -> Transformation:
    """A rotation by one, two or three quarter turns, with exchanged colour channels.

    Images that are not square are turned by half a turn.
    """
    quarters, order = int(rng.integers(1, 4)), rng.permutation(3)

    def transform(images: Images) -> Images:
        square = images.shape[1] == images.shape[2]
        return np.rot90(images, quarters if square else 2, (1, 2))[..., order].copy()

    return transform


def _to_float(images: Images) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()


def _to_uint8(images: torch.Tensor) -> Images:
    return images.round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
