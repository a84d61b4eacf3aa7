"""The classifier that a method learns for a task, and the conversion of its inputs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyshot.core.errors import DataError
from anyshot.models.network import Body, to_float

#: uint8 [n, height, width, channels], or float [n, channels, height, width] in [0, 1]
Images = Tensor | np.ndarray
Labels = Tensor | np.ndarray | Sequence[int]

log = logging.getLogger(__name__)


class Predictor:
    """Classifier of a task: images → probabilities [M, way].

    A transductive predictor uses the batch-norm statistics of the images of one call, as in the
    paper. A call should therefore have many images of all classes. Otherwise the statistics are
    those of the support set, and the result for an image does not depend on the others.

    Parameters
    ----------
    probabilities : callable
        Float images [M, channels, height, width] → probabilities [M, way].
    body : Body
        Size and channels of the images.
    like : Tensor
        A tensor with the dtype and device to compute with.
    way : int
        Number of classes.
    transductive : bool
        Whether the images of one call influence each other.
    """

    def __init__(
        self,
        probabilities: Callable[[Tensor], Tensor],
        body: Body,
        like: Tensor,
        way: int,
        transductive: bool,
    ) -> None:
        self.probabilities = probabilities
        self.body = body
        self.like = like
        self.way = way
        self.warn_small_batch = transductive

    @torch.inference_mode(False)
    @torch.no_grad()
    def __call__(self, images: Images) -> Tensor:
        """Probabilities [M, way] of images in one of the forms of :meth:`anyshot.Method.adapt`."""
        images = as_images(images, self.body, self.like)
        if self.warn_small_batch and len(images) < self.way:
            self.warn_small_batch = False  # once is enough
            log.warning(
                "%d image%s for %d classes: a transductive method uses the batch-norm statistics "
                "of all images of a call, so classify many at once, or set transductive=False "
                "(--no-transductive).",
                len(images), "s" if len(images) > 1 else "", self.way,
            )  # fmt: skip
        return self.probabilities(images)


def as_images(images: Images, body: Body, like: Tensor) -> Tensor:
    """Convert images to float [n, channels, height, width] with the dtype and device of ``like``.

    uint8 images are [n, height, width, channels] and divided by 255; float images stay as they are.

    >>> from anyshot.models.bodies.conv4 import conv4
    >>> grey = np.full((2, 32, 32, 3), 51, np.uint8)
    >>> as_images(grey, conv4((32, 32)), torch.zeros(()))[:, 0, 0, 0]
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
        raise DataError(
            f"Images are {kind} {list(given.shape)}; expected uint8 [n, {height}, {width}, "
            f"{channels}] or float [n, {channels}, {height}, {width}] with values from 0 to 1, "
            "n at least 1."
        )
    if given.dtype == torch.uint8:
        return to_float(given.to(like.device)).to(like.dtype)
    low, high = (float(v) for v in given.detach().aminmax())
    if not -1e-3 <= low <= high <= 1.001:  # allows for rounding; NaN fails, too
        raise DataError(
            f"Images are {kind} with values from {low:g} to {high:g}; expected 0 to 1. Divide by "
            "255 or clip, or give uint8 images."
        )
    # a tensor made in inference mode cannot be used by autograd, its copy can
    return given.to(like, copy=given.is_inference())


def as_labels(labels: Labels, images: int, device: torch.device) -> Tensor:
    """Convert labels to int64 [images]; they must be 0..C−1, each at least once.

    >>> as_labels([0, 1, 1], 3, torch.device("cpu"))
    tensor([0, 1, 1])
    """
    given: Any = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if given.dtype.kind not in "iu" or given.ndim != 1 or len(given) != images:
        raise DataError(
            f"Labels are {given.dtype} {list(given.shape)} for {images} images; expected integers "
            f"[{images}], one for each image."
        )
    classes = np.unique(given)
    if not np.array_equal(classes, np.arange(len(classes))):
        shown = ", ".join(map(str, classes[:10])) + (", …" if len(classes) > 10 else "")
        raise DataError(
            f"Labels are {shown}; expected 0 to {len(classes) - 1}, each at least once. "
            "numpy.unique(labels, return_inverse=True)[1] maps them to these."
        )
    return torch.from_numpy(given.astype(np.int64)).to(device)
