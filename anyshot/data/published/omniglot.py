"""Omniglot: 1,623 characters of 50 alphabets, 20 images each, 28 x 28, split 883/81/659."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names, decode_groups

SIDE = 28
ADDRESS = "https://github.com/brendenlake/omniglot/raw/master/python/"


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `images_background.zip` and `images_evaluation.zip` (Latin/character01/0683_01.png)."""
    groups: dict[str, list[Path]] = {name: [] for name in class_names(splits)}
    for path in source.find_all("*.png"):
        label = f"{path.parent.parent.name}/{path.parent.name}"
        if label in groups:
            groups[label].append(path)
    if not all(any(groups[name] for name in names) for names in splits.values()):
        return None  # one of the two archives is still missing
    return decode_groups(groups, SIDE)


DATASET = PublishedDataset(
    name="omniglot",
    title="Omniglot",
    images=32_460,
    side=SIDE,
    terms="MIT",
    homepage="https://github.com/brendenlake/omniglot",
    source_files="images_background.zip and images_evaluation.zip",
    patterns=("*.png",),
    read=read,
    images_per_class=20,
    remotes=(
        RemoteFile(
            f"{ADDRESS}images_background.zip", "68d2efa1b9178cc56df9314c21c6e718", size=9_464_212
        ),
        RemoteFile(
            f"{ADDRESS}images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811", size=6_462_886
        ),
    ),
    kind="characters",
)
