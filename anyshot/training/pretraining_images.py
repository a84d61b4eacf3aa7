"""All training images of some image sets, for supervised pre-training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anyshot.core.settings import PretrainSettings
from anyshot.data import ImageSet
from anyshot.data.augment import Images, augment, resolve_augmentations

Indices = NDArray[np.int64]


class PretrainingImages:
    """The images of the training classes of several image sets, by index, with labels.

    Classes are numbered over all image sets.
    """

    def __init__(self, imagesets: Sequence[ImageSet], settings: PretrainSettings) -> None:
        self.imagesets = imagesets
        members = [
            (k, imageset.starts[c], imageset.starts[c + 1])
            for k, imageset in enumerate(imagesets)
            for c in imageset.splits["train"]
        ]
        sizes = [end - start for _, start, end in members]
        self.source = np.repeat([k for k, _, _ in members], sizes)  # the image set of each image
        self.row = np.concatenate([np.arange(start, end) for _, start, end in members])
        self.label = np.repeat(np.arange(len(members)), sizes)
        self.augmentations = [
            resolve_augmentations(settings.augment, imageset) for imageset in imagesets
        ]
        self.classes = len(members)

    def __len__(self) -> int:
        return len(self.label)

    def load_batch(self, indices: Indices, rng: np.random.Generator) -> tuple[Images, Indices]:
        """Return augmented images uint8 [n, height, width, 3] and labels [n] of these indices."""
        images = np.empty((len(indices), *self.imagesets[0].images.shape[1:]), np.uint8)
        for k, imageset in enumerate(self.imagesets):
            is_from_set = self.source[indices] == k
            rows = self.row[indices[is_from_set]]
            images[is_from_set] = augment(imageset.images[rows], self.augmentations[k], rng)
        return images, self.label[indices]
