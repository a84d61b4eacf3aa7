"""Features of subsets of data sets, for meta-training and measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyshot.classifier.backbones import block_widths, compute_features, open_backbone
from anyshot.classifier.backbones.image_input import ImageLike
from anyshot.classifier.meta_training.episodes import FeatureSet
from anyshot.core.progress import progress
from anyshot.data import open_images


@dataclass(frozen=True)
class ImageSubset:
    """At most `images` images of every `every`-th class of the given splits (none: all splits)."""

    name: str
    images: int
    every: int = 1
    splits: tuple[str, ...] = ()


#: side of the images that the backbone sees → subsets of the data sets
SUBSETS = {
    224: (
        ImageSubset("vgg-flower", 65, 8),
        ImageSubset("svhn", 100, splits=("test",)),
        ImageSubset("gtsrb", 65),
        ImageSubset("cifar-fs", 65, 2),
        ImageSubset("quickdraw", 50, 10),
        ImageSubset("miniimagenet", 50, 4),
    ),
}


def feature_sets(backbone: str, side: int, names: tuple[str, ...] = ()) -> list[FeatureSet]:
    """Features of all subsets at an image size, or of those with these names."""
    subsets = [subset for subset in SUBSETS[side] if not names or subset.name in names]
    sets = []
    with progress(f"Features at {side}x{side}", len(subsets)) as advance:
        for subset in subsets:
            sets.append(subset_features(subset, backbone, side))
            advance(note=subset.name)
    return sets


def subset_features(subset: ImageSubset, backbone: str, side: int) -> FeatureSet:
    """Features of a subset at an image size."""
    opened = open_backbone(backbone, side=side)
    classes = [compute_features(images, opened) for images in select_images(subset)]
    return FeatureSet(subset.name, classes, block_widths(backbone, classes[0].shape[1]))


def select_images(subset: ImageSubset) -> list[list[ImageLike]]:
    """The images of a subset, class by class; always the same ones."""
    images = open_images(subset.name)
    rng = np.random.default_rng(0)
    included = {c for split in subset.splits or images.splits for c in images.splits[split]}
    classes: list[list[ImageLike]] = []
    for c in range(len(images.classes)):
        pixels = images.images_of(c)
        order = rng.permutation(len(pixels))[: subset.images]
        if c % subset.every == 0 and c in included:
            classes.append(list(pixels[order]))
    return classes
