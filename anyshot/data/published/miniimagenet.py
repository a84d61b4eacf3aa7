"""miniImageNet: 100 classes of ImageNet, 600 images each, 84 x 84, split 64/16/20 by class."""

from __future__ import annotations

import csv
from pathlib import Path

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, Splits
from anyshot.data.published.image_files import (
    IMAGE_FILES,
    class_names,
    decode_groups,
    group_by_folder,
)
from anyshot.data.published.readers import (
    check_integers,
    check_pixels,
    damaged_file_error,
    read_pickle,
    to_strings,
)

SIDE = 84
PARTS = {"train": ("train",), "validation": ("val", "validation"), "test": ("test",)}


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read three `mini-imagenet-cache-*.pkl`, or three csv files with their images, or folders."""
    caches = _files_by_split(source, splits, "*cache*{}.pkl")
    if caches:
        return _read_caches(caches, splits)
    lists = _files_by_split(source, splits, "{}.csv")
    if lists and source.find_first(*IMAGE_FILES):
        return decode_groups(_group_by_list(source, lists, splits), SIDE)
    folders = group_by_folder(source, class_names(splits))
    return decode_groups(folders, SIDE) if folders else None


def _files_by_split(source: SourceFiles, splits: Splits, pattern: str) -> list[Path]:
    """Return one file for each split; none if one of them is missing."""
    matches = [
        source.find_first(*(pattern.format(part) for part in PARTS[split])) for split in splits
    ]
    return [path for path in matches if path] if all(matches) else []


def _read_caches(caches: list[Path], splits: Splits) -> ClassImages:
    for path, names in zip(caches, splits.values(), strict=True):
        content = read_pickle(path)
        shape = (SIDE, SIDE, 3)
        images = check_pixels(path, "its 'image_data'", content.get("image_data"), shape)
        classes = content.get("class_dict")
        if not isinstance(classes, dict):
            raise damaged_file_error(path, "it has no dictionary 'class_dict'")
        rows = {label: classes[key] for key in classes for label in to_strings([key])}
        for name in names:
            if name not in rows:
                raise damaged_file_error(path, f"there is no class {name!r}")
            what = f"the rows of {name!r}"
            yield name, images[check_integers(path, what, rows[name], 0, len(images) - 1)]


def _group_by_list(source: SourceFiles, lists: list[Path], splits: Splits) -> dict[str, list[Path]]:
    images = {path.stem: path for path in source.find_all(*IMAGE_FILES)}
    groups: dict[str, list[Path]] = {name: [] for name in class_names(splits)}
    for path in lists:
        for row in _read_rows(path):
            file = row.get("filename") or ""
            name = row.get("label")
            if name not in groups:
                raise damaged_file_error(
                    path, f"it lists {name!r}, which is not one of the 100 classes"
                )
            if Path(file).stem not in images:
                raise damaged_file_error(path, f"the source has no image {file!r}, which it lists")
            groups[name].append(images[Path(file).stem])
    return groups


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            return list(csv.DictReader(file))
    except (OSError, csv.Error) as error:
        raise damaged_file_error(path, error) from error


DATASET = PublishedDataset(
    name="miniimagenet",
    title="miniImageNet",
    images=60_000,
    side=SIDE,
    terms="ImageNet's terms: non-commercial research and education",
    homepage="https://github.com/twitter-research/meta-learning-lstm",
    source_files=(
        "mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl, or train.csv, val.csv, test.csv "
        "with the images"
    ),
    patterns=("*.pkl", "*.csv", *IMAGE_FILES),
    read=read,
    images_per_class=600,
)
