"""Features of data sets for meta-training and measuring, a part of each set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyshot.classifier.backbones import features_of, open_backbone
from anyshot.classifier.backbones.image_input import Picture
from anyshot.classifier.meta_training.episodes import FeatureSet
from anyshot.core.progress import progress
from anyshot.data import open_images
from anyshot.data.folder import list_folder


@dataclass(frozen=True)
class Part:
    """Which images of a set: so many of a class, of every so many-th class, of some splits (none: all)."""

    name: str
    images: int
    every: int = 1
    splits: tuple[str, ...] = ()


#: side of the images as the backbone sees them → parts of the sets
PARTS = {
    112: (
        Part("vgg-flower", 80), Part("svhn", 150, splits=("test",)), Part("gtsrb", 80), Part("fashion-mnist", 150),
        Part("cifar-fs", 80), Part("quickdraw", 40), Part("miniimagenet", 80),
        Part("cifar-fs", 515, 10), Part("fashion-mnist", 515),
    ),
    224: (
        Part("vgg-flower", 65, 2), Part("svhn", 100, splits=("test",)), Part("gtsrb", 65), Part("fashion-mnist", 100),
        Part("cifar-fs", 65, 2), Part("quickdraw", 50, 10), Part("miniimagenet", 50, 4),
    ),
}  # fmt: skip


def feature_sets(backbone: str, side: int, names: tuple[str, ...] = ()) -> list[FeatureSet]:
    """The features of the sets at that size, all or some; computed where they are not in the cache."""
    parts = [part for part in PARTS[side] if not names or part.name in names]
    found = []
    with progress(f"Features at {side}x{side}", len(parts)) as advance:
        for part in parts:
            found.append(features_of_part(part, backbone, side))
            advance(note=part.name)
    return found


def features_of_part(part: Part, backbone: str, side: int) -> FeatureSet:
    """The features of a part of a set at that size."""
    opened = open_backbone(backbone, side=side)
    return FeatureSet(part.name, [features_of(pictures, opened) for pictures in chosen(part)])


def chosen(part: Part) -> list[list[Picture]]:
    """The pictures of a part, class by class; always the same ones."""
    images, rng = open_images(part.name), np.random.default_rng(0)
    wanted = {c for split in part.splits or images.splits for c in images.splits[split]}
    found: list[list[Picture]] = []
    for c in range(len(images.classes)):
        pixels = images.images_of(c)
        order = rng.permutation(len(pixels))[: part.images]
        if c % part.every == 0 and c in wanted:
            found.append(list(pixels[order]))
    return found


def folder_features(folder: Path, backbone: str, side: int) -> FeatureSet:
    """A person's own folder of class folders, or of folders of these, as a set."""
    files: dict[str, list[Picture]] = {}
    tops = (
        [folder]
        if not (folder / "train").is_dir()
        else sorted(p for p in folder.iterdir() if p.is_dir())
    )
    for top in tops:
        for label, paths in list_folder(top).files.items():
            files.setdefault(label, []).extend(paths)
    opened = open_backbone(backbone, side=side)
    return FeatureSet(folder.name, [features_of(paths, opened) for paths in files.values()])
