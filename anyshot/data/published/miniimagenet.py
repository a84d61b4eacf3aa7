"""miniImageNet: 100 classes of ImageNet, 600 images each, 84 x 84, split 64/16/20 by class."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, Splits
from anyshot.data.published.image_files import PICTURES, class_names, decode_groups, group_by_folder
from anyshot.data.published.readers import check_integers, damaged_file, read_pickle, to_strings

SIDE = 84
PARTS = {"train": ("train",), "validation": ("val", "validation"), "test": ("test",)}


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """The three `mini-imagenet-cache-*.pkl`; or the three csv files with the images they name; or class folders."""
    caches = [
        tree.first_match(*(f"*cache*{part}.pkl" for part in PARTS[split])) for split in splits
    ]
    if all(caches):
        return _cached([path for path in caches if path], splits)
    lists = [tree.first_match(*(f"{part}.csv" for part in PARTS[split])) for split in splits]
    if all(lists) and tree.first_match(*PICTURES):
        return decode_groups(_listed(tree, [path for path in lists if path], splits), SIDE)
    folders = group_by_folder(tree, class_names(splits))
    return decode_groups(folders, SIDE) if folders else None


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
            raise damaged_file(
                path, "it has no 'image_data' uint8 [n, 84, 84, 3] with a 'class_dict'"
            )
        rows = {label: classes[key] for key in classes for label in to_strings([key])}
        for name in names:
            if name not in rows:
                raise damaged_file(path, f"there is no class {name!r}")
            yield (
                name,
                images[
                    check_integers(path, f"the rows of {name!r}", rows[name], 0, len(images) - 1)
                ],
            )


def _listed(tree: SourceFiles, lists: list[Path], splits: Splits) -> dict[str, list[Path]]:
    pictures = {path.stem: path for path in tree.matching(*PICTURES)}
    groups: dict[str, list[Path]] = {name: [] for name in class_names(splits)}
    for path in lists:
        for row in _rows(path):
            picture, name = Path(row.get("filename") or "").stem, row.get("label")
            if name not in groups:
                raise damaged_file(
                    path, f"it lists a class {name!r}, which is not one of the hundred"
                )
            if picture not in pictures:
                raise damaged_file(
                    path, f"the picture {row['filename']!r} that it lists is not in the source"
                )
            groups[name].append(pictures[picture])
    return groups


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            return list(csv.DictReader(file))
    except (OSError, csv.Error) as error:
        raise damaged_file(path, error) from error


DATASET = PublishedDataset(
    name="miniimagenet",
    title="miniImageNet",
    images=60_000,
    side=SIDE,
    terms="ImageNet's terms: non-commercial research and education",
    homepage="https://github.com/twitter-research/meta-learning-lstm",
    source_files="mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl, or train.csv, val.csv, test.csv with the images",
    patterns=("*.pkl", "*.csv", *PICTURES),
    read=read,
)
