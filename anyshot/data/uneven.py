"""Uneven meta-training sets: an image set whose classes have different numbers of images."""

from __future__ import annotations

import numpy as np

from anyshot.core.errors import DataError
from anyshot.core.random import numpy_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.task_settings import parse_shots
from anyshot.data.image_set import ImageSet
from anyshot.data.shots import draw_sizes
from anyshot.data.storage import canonical_split


def make_uneven(images: ImageSet, shots: str, *, split: str = "train", seed: int = 0) -> ImageSet:
    """Keep a random part of the images of each class of a split.

    Parameters
    ----------
    images : ImageSet
        The complete set.
    shots : str
        Shot rule and range, as in `TaskSettings.shots`: how many images the classes of the split
        keep. A smaller class keeps all its images.
    split : {"train", "validation", "val", "test"}
        The split to change; the others stay as they are.
    seed : int
        Seed of the sizes and of the choice of images.

    Returns
    -------
    ImageSet
        A new set in memory, called NAME-RULE.

    Examples
    --------
    >>> classes = {name: np.zeros((60, 8, 8, 3), np.uint8) for name in "abcd"}
    >>> even = ImageSet.from_arrays("toy", classes, {"train": ["a", "b", "c"], "test": ["d"]})
    >>> uneven = make_uneven(even, "linear:10-50")
    >>> sorted(uneven.counts[:3].tolist()), int(uneven.counts[3]), uneven.name
    ([10, 30, 50], 60, 'toy-linear')
    """
    split = canonical_split(split)
    rule, least, most = parse_shots(shots)
    members = images.splits.get(split, ())
    rng = numpy_rng(seed, "uneven", split)
    if not members:
        raise DataError(f"{images.name} has no {split} classes; choose another split.")
    drawn = draw_sizes(SHOT_RULES[rule], rng, len(members), least, most)
    sizes = dict(zip(members, drawn, strict=True))
    arrays = {}
    for c, label in enumerate(images.classes):
        pixels = images.images_of(c)
        if c in sizes and sizes[c] < len(pixels):
            pixels = pixels[np.sort(rng.choice(len(pixels), sizes[c], replace=False))]
        arrays[label] = pixels
    splits = {name: [images.classes[c] for c in classes] for name, classes in images.splits.items()}
    notes = {**images.notes, "uneven": {"shots": shots, "split": split, "seed": seed}}
    return ImageSet.from_arrays(f"{images.name}-{rule}", arrays, splits, notes, images.kind)
