"""FGVC-Aircraft 2013b: 100 variants of aircraft, 100 images each, 32 x 32, split 70/15/15 by class.

Each image is cropped to the bounding box of the aircraft and resized as a whole, as in the
published code of Bayesian TAML and in Meta-Dataset.
"""

from __future__ import annotations

from pathlib import Path

from anyshot.data.decode import Box
from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import (
    IMAGE_FILES,
    class_names,
    decode_groups,
    group_by_folder,
)
from anyshot.data.published.readers import damaged_file_error

SIDE = 32
LISTS = ("images_variant_trainval.txt", "images_variant_test.txt")
BOXES = "images_box.txt"


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `fgvc-aircraft-2013b.tar.gz`, or class folders of images that are cropped already.

    The lists have lines "0034309 F-16A/B", the boxes "0034309 3 144 998 431" (left, top, right,
    bottom).
    """
    lists = source.find_all(*LISTS)
    boxes = source.find_first(BOXES)
    if len(lists) == 2 and boxes:
        files = {path.stem: path for path in source.find_all(*IMAGE_FILES)}
        groups = _group_by_list(lists, files, class_names(splits))
        return decode_groups(groups, SIDE, boxes=_read_boxes(boxes, files), crop=False)
    folders = group_by_folder(source, class_names(splits))
    return decode_groups(folders, SIDE) if folders else None


def _group_by_list(
    lists: list[Path], files: dict[str, Path], names: list[str]
) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for path in lists:
        for line in _lines(path):
            image, _, name = line.partition(" ")
            if name not in groups or image not in files:
                raise damaged_file_error(
                    path, f"the line {line[:60]!r} has no known variant or image"
                )
            groups[name].append(files[image])
    return groups


def _read_boxes(path: Path, files: dict[str, Path]) -> dict[Path, Box]:
    boxes: dict[Path, Box] = {}
    for line in _lines(path):
        image, *numbers = line.split()
        try:
            left, top, right, bottom = map(int, numbers)
        except ValueError as error:
            raise damaged_file_error(path, f"the line {line[:60]!r} is not a box") from error
        if image in files:
            boxes[files[image]] = (left - 1, top - 1, right, bottom)  # pixels are counted from 1
    missing = [name for name, file in files.items() if file not in boxes]
    if missing:
        raise damaged_file_error(path, f"the image {missing[0]!r} has no box")
    return boxes


def _lines(path: Path) -> list[str]:
    text = path.read_text("utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


ADDRESS = "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/"
DATASET = PublishedDataset(
    name="aircraft",
    title="FGVC-Aircraft 2013b",
    images=10_000,
    side=SIDE,
    terms="non-commercial research only",
    homepage=ADDRESS,
    source_files="fgvc-aircraft-2013b.tar.gz",
    patterns=(*LISTS, BOXES, *IMAGE_FILES),
    read=read,
    images_per_class=100,
    remotes=(
        RemoteFile(
            f"{ADDRESS}archives/fgvc-aircraft-2013b.tar.gz",
            "d4acdd33327262359767eeaa97a4f732",
            size=2_753_340_328,
        ),
    ),
)
