"""Oxford 102 Flowers: 40 to 258 images a class, 32 x 32, split 71/15/16 by class as published in Meta-Dataset."""

from __future__ import annotations

from pathlib import Path

from anyshot.data.published.archives import Tree
from anyshot.data.published.dataset import ClassImages, PublishedDataset, Remote, Splits
from anyshot.data.published.image_files import PICTURES, all_names, by_folder, decoded
from anyshot.data.published.readers import broken, read_mat, whole_numbers

SIDE = 32
ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"


def read(tree: Tree, splits: Splits) -> ClassImages | None:
    """`102flowers.tgz` (image_00001.jpg and so on) with `imagelabels.mat`; or class folders ("001.pink primrose")."""
    names = all_names(splits)
    labels = tree.one("imagelabels.mat")
    if labels and tree.one("image_0*.jpg"):
        return decoded(_labelled(tree, labels, names), SIDE)
    folders = by_folder(tree, names)
    return decoded(folders, SIDE) if folders else None


def _labelled(tree: Tree, path: Path, names: list[str]) -> dict[str, list[Path]]:
    labels = whole_numbers(path, "its labels", read_mat(path, "labels")[0].ravel(), 1, 102)
    classes = {int(name[:3]): name for name in names}  # "001.pink primrose" is label 1
    pictures = {picture.stem: picture for picture in tree.named("image_*.jpg")}
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for number, label in enumerate(labels, start=1):
        stem = f"image_{number:05}"
        if stem not in pictures:
            raise broken(path, f"there is no picture {stem}.jpg")
        groups[classes[int(label)]].append(pictures[stem])
    return groups


ENTRY = PublishedDataset(
    name="vgg-flower",
    title="Oxford 102 Flowers",
    images=8_189,
    side=SIDE,
    terms="no licence stated; cite Nilsback and Zisserman 2008",
    home=ADDRESS,
    files="102flowers.tgz and imagelabels.mat",
    wanted=("imagelabels.mat", *PICTURES),
    read=read,
    remotes=(
        Remote(f"{ADDRESS}102flowers.tgz", "52808999861908f626f3c1f4e79d11fa", size=344_862_509),
        Remote(f"{ADDRESS}imagelabels.mat", "e0620be6f572b9609742df49c70aed4d", size=502),
    ),
)
