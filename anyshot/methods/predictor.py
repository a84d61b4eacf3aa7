"""What goes into a method from outside, checked and converted by one rule, and the classifier that comes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.models.network import Body, to_float

Images = (
    Tensor | np.ndarray
)  #: uint8 [n, height, width, channels], or float [n, channels, height, width] in [0, 1]
Labels = Tensor | np.ndarray | Sequence[int]

log = logging.getLogger(__name__)


class Predictor:
    """A task's classifier: images → probabilities [M, way].

    A transductive one normalises by the statistics of the images that it is asked about together (as in the paper), so
    these should be many and of all classes; otherwise each image is classified by itself.
    """

    def __init__(
        self,
        probabilities: Callable[[Tensor], Tensor],
        body: Body,
        like: Tensor,
        way: int,
        transductive: bool,
    ):
        self.probabilities, self.body, self.like, self.way = probabilities, body, like, way
        self.wants_company = transductive

    @torch.inference_mode(False)
    @torch.no_grad()
    def __call__(self, images: Images) -> Tensor:
        """Probabilities [M, way] of images, given as to :meth:`anyshot.Method.adapt`."""
        images = as_images(images, self.body, self.like)
        if self.wants_company and len(images) < self.way:
            self.wants_company = False  # said once
            log.warning(
                "Asked about %d image%s of %d classes: a transductive classifier compares the images that it is asked "
                "about together, so ask about many at once, or set transductive=False (--no-transductive).",
                len(images), "s" if len(images) > 1 else "", self.way,
            )  # fmt: skip
        return self.probabilities(images)


def as_images(images: Images, body: Body, like: Tensor) -> Tensor:
    """Float [n, channels, height, width] of the type and on the device of ``like``.

    uint8 images are [n, height, width, channels] and divided by 255; float ones are taken as they are.

    >>> from anyshot.models.bodies.conv4 import conv4
    >>> as_images(np.full((2, 32, 32, 3), 51, np.uint8), conv4((32, 32)), torch.zeros(()))[:, 0, 0, 0]
    tensor([0.2000, 0.2000])
    """
    given = images if isinstance(images, Tensor) else torch.tensor(np.asarray(images))
    size, channels = body.image_size, body.image_channels
    expected = (*size, channels) if given.dtype == torch.uint8 else (channels, *size)
    kind = str(given.dtype).removeprefix("torch.")
    if (
        given.shape[1:] != expected
        or not len(given)
        or not (given.dtype == torch.uint8 or given.is_floating_point())
    ):
        height, width = size
        raise AnyshotError(
            f"Images are {kind} {list(given.shape)}, but should be uint8 [n, {height}, {width}, {channels}] or float "
            f"[n, {channels}, {height}, {width}] with values from 0 to 1, n at least 1."
        )
    if given.dtype == torch.uint8:
        return to_float(given.to(like.device)).to(like.dtype)
    low, high = (float(v) for v in given.detach().aminmax())
    if not -1e-3 <= low <= high <= 1.001:  # rounding aside; not a number fails, too
        raise AnyshotError(
            f"Images are {kind} with values from {low:g} to {high:g}, but float images should have values from 0 to 1; "
            "divide by 255 or clip, or give uint8 images."
        )
    return given.to(
        like, copy=given.is_inference()
    )  # a tensor that inference mode made is of little use outside it


def as_labels(labels: Labels, images: int, device: torch.device) -> Tensor:
    """int64 [images]; a task's classes are 0..C−1, and there is an image of each.

    >>> as_labels([0, 1, 1], 3, torch.device("cpu"))
    tensor([0, 1, 1])
    """
    given: Any = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if given.dtype.kind not in "iu" or given.ndim != 1 or len(given) != images:
        raise AnyshotError(
            f"Labels are {given.dtype} {list(given.shape)} for {images} images, but should be integers [{images}], one "
            "for each image."
        )
    found = np.unique(given)
    if not np.array_equal(found, np.arange(len(found))):
        shown = ", ".join(map(str, found[:10])) + (", …" if len(found) > 10 else "")
        raise AnyshotError(
            f"Labels are {shown}, but should be 0 to {len(found) - 1}, each at least once; "
            "numpy.unique(labels, return_inverse=True)[1] maps them so."
        )
    return torch.from_numpy(given.astype(np.int64)).to(device)
