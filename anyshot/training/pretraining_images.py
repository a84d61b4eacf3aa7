"""All training images of some image sets, for plain classification: by number, with their labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import PretrainSettings
from anyshot.data import ImageSet
from anyshot.data.augment import Images, augment, quarter_turns, resolve_augmentations

TURNS = 4  #: quarter turns
Numbers = NDArray[np.int64]


class PretrainingImages:
    """Every image of the training classes of some sets by its number, as a step wants it: changed, and turned."""

    def __init__(self, imagesets: Sequence[ImageSet], settings: PretrainSettings) -> None:
        self.sets, self.settings = imagesets, settings
        members = [
            (k, i.starts[c], i.starts[c + 1])
            for k, i in enumerate(imagesets)
            for c in i.splits["train"]
        ]
        sizes = [end - start for _, start, end in members]
        self.source = np.repeat([k for k, _, _ in members], sizes)  # which set
        self.place = np.concatenate(
            [np.arange(start, end) for _, start, end in members]
        )  # where in it
        self.label = np.repeat(np.arange(len(members)), sizes)
        self.how = [resolve_augmentations(settings.augment, i) for i in imagesets]
        self.turned = settings.rotations != "none"
        if self.turned and len(set(imagesets[0].size)) > 1:
            raise AnyshotError(
                f"Images of {imagesets[0].size} pixels cannot be turned; rotations need square ones."
            )
        self.classes = len(members) * (TURNS if settings.rotations == "classes" else 1)
        self.outputs = self.classes + (TURNS if settings.rotations == "task" else 0)

    def __len__(self) -> int:
        return len(self.label)

    def get(self, rows: Numbers, rng: np.random.Generator) -> tuple[Images, Numbers, Numbers]:
        """Images uint8 [n, height, width, 3] of these numbers, their labels, and by how many quarter turns each is
        turned."""
        images = np.empty((len(rows), *self.sets[0].images.shape[1:]), np.uint8)
        for k, (imageset, how) in enumerate(zip(self.sets, self.how, strict=True)):
            here = self.source[rows] == k
            images[here] = augment(imageset.images[self.place[rows[here]]], how, rng)
        labels, turns = self.label[rows], np.zeros(len(rows), np.int64)
        if self.turned:
            turns = rng.integers(TURNS, size=len(rows))
            images = quarter_turns(images, turns)
        return (
            images,
            labels * TURNS + turns if self.settings.rotations == "classes" else labels,
            turns,
        )
