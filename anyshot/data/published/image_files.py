"""Images of a data set from image files: grouped by folder or by list, decoded class by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import DataError
from anyshot.data.decode import Box, decode_all
from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, Splits
from anyshot.data.published.readers import damaged_file_error

IMAGE_FILES = ("*.jpg", "*.jpeg", "*.png", "*.ppm")


def folder_name(label: str) -> str:
    """Return the folder name of a class; a slash becomes a dash."""
    return label.replace("/", "-")


def group_by_folder(
    source: SourceFiles, names: Sequence[str], key: Callable[[str], str] = folder_name
) -> dict[str, list[Path]] | None:
    """Return {class: files} of the folders with the key of a class; None if there are none."""
    classes = {key(name): name for name in names}
    groups: dict[str, list[Path]] = {name: [] for name in names}
    for path in source.find_all(*IMAGE_FILES):
        if name := classes.get(key(path.parent.name)):
            groups[name].append(path)
    return groups if any(groups.values()) else None


def class_names(splits: Splits) -> list[str]:
    """Return all class names, split after split."""
    return [name for members in splits.values() for name in members]


def decode_groups(
    groups: Mapping[str, list[Path]],
    side: int,
    *,
    boxes: Mapping[Path, Box] | None = None,
    crop: bool = True,
) -> ClassImages:
    """Decode the files of each class (arguments as in `decode`).

    A class without files and a file that cannot be decoded are errors.
    """
    empty = [name for name, paths in groups.items() if not paths]
    if empty:
        raise DataError(
            f"The source has no images of {len(empty)} of {len(groups)} classes, for instance "
            f"{empty[0]!r}; unpack or download it again."
        )
    files = (path for paths in groups.values() for path in paths)
    results = decode_all(files, side, boxes=boxes, crop=crop)
    for name, paths in groups.items():
        images = np.empty((len(paths), side, side, 3), np.uint8)
        for n, path in enumerate(paths):
            pixels = next(results)
            if isinstance(pixels, str):
                raise damaged_file_error(path, pixels)
            images[n] = pixels
        yield name, images


def enlarge(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Enlarge grey images [n, s, s] to [n, side, side, 3] by linear interpolation."""
    s = grey.shape[1]
    position = np.clip((np.arange(side) + 0.5) * s / side - 0.5, 0, s - 1)
    # Each row holds the interpolation weights of an output pixel: [side, s].
    weight = np.clip(1 - np.abs(position[:, None] - np.arange(s)), 0, 1).astype(np.float32)
    large = np.rint(weight @ grey.astype(np.float32) @ weight.T).astype(np.uint8)
    return np.repeat(large[..., None], 3, axis=3)
