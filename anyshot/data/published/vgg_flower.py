"""Oxford 102 Flowers: 40 to 258 images per class, 32 x 32, split 71/15/16 (Meta-Dataset)."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import (
    IMAGE_FILES,
    class_names,
    decode_groups,
    group_by_folder,
)
from anyshot.data.published.readers import check_integers, damaged_file_error, read_mat

SIDE = 32
ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `102flowers.tgz` (image_00001.jpg, ...) with `imagelabels.mat`, or class folders.

    Class folders are named "001.pink primrose" and so on.
    """
    names = class_names(splits)
    labels = source.find_first("imagelabels.mat")
    if labels and source.find_first("image_0*.jpg"):
        return decode_groups(_group_by_label(source, labels, names), SIDE)
    folders = group_by_folder(source, names)
    return decode_groups(folders, SIDE) if folders else None


def _group_by_label(source: SourceFiles, path: Path, names: list[str]) -> dict[str, list[Path]]:
    labels = check_integers(path, "its labels", read_mat(path, "labels")[0].ravel(), 1, 102)
    classes = {int(name[:3]): name for name in names}  # "001.pink primrose" is label 1
    images = {image.stem: image for image in source.find_all("image_*.jpg")}
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for number, label in enumerate(labels, start=1):
        stem = f"image_{number:05}"
        if stem not in images:
            raise damaged_file_error(path, f"there is no image {stem}.jpg")
        groups[classes[int(label)]].append(images[stem])
    return groups


DATASET = PublishedDataset(
    name="vgg-flower",
    title="Oxford 102 Flowers",
    images=8_189,
    side=SIDE,
    terms="no licence stated; cite Nilsback and Zisserman 2008",
    homepage=ADDRESS,
    source_files="102flowers.tgz and imagelabels.mat",
    patterns=("imagelabels.mat", *IMAGE_FILES),
    read=read,
    remotes=(
        RemoteFile(
            f"{ADDRESS}102flowers.tgz", "52808999861908f626f3c1f4e79d11fa", size=344_862_509
        ),
        RemoteFile(f"{ADDRESS}imagelabels.mat", "e0620be6f572b9609742df49c70aed4d", size=502),
    ),
)
