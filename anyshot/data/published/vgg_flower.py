"""Oxford 102 Flowers: 40 to 258 images a class, 32 x 32, split 71/15/16 by class as published in Meta-Dataset."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import PICTURES, class_names, decode_groups, group_by_folder
from anyshot.data.published.readers import check_integers, damaged_file, read_mat

SIDE = 32
ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`102flowers.tgz` (image_00001.jpg and so on) with `imagelabels.mat`; or class folders ("001.pink primrose")."""
    names = class_names(splits)
    labels = tree.first_match("imagelabels.mat")
    if labels and tree.first_match("image_0*.jpg"):
        return decode_groups(_labelled(tree, labels, names), SIDE)
    folders = group_by_folder(tree, names)
    return decode_groups(folders, SIDE) if folders else None


def _labelled(tree: SourceFiles, path: Path, names: list[str]) -> dict[str, list[Path]]:
    labels = check_integers(path, "its labels", read_mat(path, "labels")[0].ravel(), 1, 102)
    classes = {int(name[:3]): name for name in names}  # "001.pink primrose" is label 1
    pictures = {picture.stem: picture for picture in tree.matching("image_*.jpg")}
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for number, label in enumerate(labels, start=1):
        stem = f"image_{number:05}"
        if stem not in pictures:
            raise damaged_file(path, f"there is no picture {stem}.jpg")
        groups[classes[int(label)]].append(pictures[stem])
    return groups


DATASET = PublishedDataset(
    name="vgg-flower",
    title="Oxford 102 Flowers",
    images=8_189,
    side=SIDE,
    terms="no licence stated; cite Nilsback and Zisserman 2008",
    homepage=ADDRESS,
    source_files="102flowers.tgz and imagelabels.mat",
    patterns=("imagelabels.mat", *PICTURES),
    read=read,
    remotes=(
        RemoteFile(
            f"{ADDRESS}102flowers.tgz", "52808999861908f626f3c1f4e79d11fa", size=344_862_509
        ),
        RemoteFile(f"{ADDRESS}imagelabels.mat", "e0620be6f572b9609742df49c70aed4d", size=502),
    ),
)
