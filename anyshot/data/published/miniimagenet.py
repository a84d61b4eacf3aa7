"""miniImageNet: 100 classes of ImageNet, 600 images each, 84 x 84, split 64/16/20 by class."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from anyshot.data.published.archives import Tree
from anyshot.data.published.dataset import ClassImages, PublishedDataset, Splits
from anyshot.data.published.image_files import PICTURES, all_names, by_folder, decoded
from anyshot.data.published.readers import broken, read_pickle, texts, whole_numbers

SIDE = 84
PARTS = {"train": ("train",), "validation": ("val", "validation"), "test": ("test",)}


def read(tree: Tree, splits: Splits) -> ClassImages | None:
    """The three `mini-imagenet-cache-*.pkl`; or the three csv files with the images they name; or class folders."""
    caches = [tree.one(*(f"*cache*{part}.pkl" for part in PARTS[split])) for split in splits]
    if all(caches):
        return _cached([path for path in caches if path], splits)
    lists = [tree.one(*(f"{part}.csv" for part in PARTS[split])) for split in splits]
    if all(lists) and tree.one(*PICTURES):
        return decoded(_listed(tree, [path for path in lists if path], splits), SIDE)
    folders = by_folder(tree, all_names(splits))
    return decoded(folders, SIDE) if folders else None


def _cached(caches: list[Path], splits: Splits) -> ClassImages:
    for path, names in zip(caches, splits.values(), strict=True):
        content = read_pickle(path)
        images, classes = content.get("image_data"), content.get("class_dict")
        pictures = (
            isinstance(images, np.ndarray)
            and images.dtype == np.uint8
            and images.shape[1:] == (SIDE, SIDE, 3)
        )
        if images is None or not pictures or not isinstance(classes, dict):
            raise broken(path, "it has no 'image_data' uint8 [n, 84, 84, 3] with a 'class_dict'")
        rows = {label: classes[key] for key in classes for label in texts([key])}
        for name in names:
            if name not in rows:
                raise broken(path, f"there is no class {name!r}")
            yield (
                name,
                images[
                    whole_numbers(path, f"the rows of {name!r}", rows[name], 0, len(images) - 1)
                ],
            )


def _listed(tree: Tree, lists: list[Path], splits: Splits) -> dict[str, list[Path]]:
    pictures = {path.stem: path for path in tree.named(*PICTURES)}
    groups: dict[str, list[Path]] = {name: [] for name in all_names(splits)}
    for path in lists:
        for row in _rows(path):
            picture, name = Path(row.get("filename") or "").stem, row.get("label")
            if name not in groups:
                raise broken(path, f"it lists a class {name!r}, which is not one of the hundred")
            if picture not in pictures:
                raise broken(
                    path, f"the picture {row['filename']!r} that it lists is not in the source"
                )
            groups[name].append(pictures[picture])
    return groups


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            return list(csv.DictReader(file))
    except (OSError, csv.Error) as error:
        raise broken(path, error) from error


ENTRY = PublishedDataset(
    name="miniimagenet",
    title="miniImageNet",
    images=60_000,
    side=SIDE,
    terms="ImageNet's terms: non-commercial research and education",
    home="https://github.com/twitter-research/meta-learning-lstm",
    files="mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl, or train.csv, val.csv, test.csv with the images",
    wanted=("*.pkl", "*.csv", *PICTURES),
    read=read,
)
