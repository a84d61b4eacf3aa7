"""Pictures grouped by class, from files in class folders or from a list of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError
from anyshot.data.decode import decode_all
from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, Splits
from anyshot.data.published.readers import damaged_file

PICTURES = ("*.jpg", "*.jpeg", "*.png", "*.ppm")


def folder_name(label: str) -> str:
    """A class name as folders spell it: a slash cannot be in a folder's name."""
    return label.replace("/", "-")


def group_by_folder(
    tree: SourceFiles, names: Sequence[str], key: Callable[[str], str] = folder_name
) -> dict[str, list[Path]] | None:
    """{class: its pictures} where each lies in a folder with the key of its class; None without any such folder."""
    classes = {key(name): name for name in names}
    found: dict[str, list[Path]] = {name: [] for name in names}
    for path in tree.matching(*PICTURES):
        if name := classes.get(key(path.parent.name)):
            found[name].append(path)
    return found if any(found.values()) else None


def class_names(splits: Splits) -> list[str]:
    """Every class, split after split."""
    return [name for members in splits.values() for name in members]


def decode_groups(groups: Mapping[str, list[Path]], side: int, bottom: int = 0) -> ClassImages:
    """The pictures of each class; a class without any, or a picture that cannot be read, ends it with a sentence."""
    empty = [name for name, paths in groups.items() if not paths]
    if empty:
        raise AnyshotError(
            f"The source has no pictures of {len(empty)} of {len(groups)} classes, for instance {empty[0]!r}; "
            f"unpack or fetch it again."
        )
    pictures = decode_all(
        (path for paths in groups.values() for path in paths), side, bottom=bottom
    )
    for name, paths in groups.items():
        array = np.empty((len(paths), side, side, 3), np.uint8)
        for n, path in enumerate(paths):
            pixels = next(pictures)
            if isinstance(pixels, str):
                raise damaged_file(path, pixels)
            array[n] = pixels
        yield name, array


def enlarge(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Grey pictures [n, s, s] as [n, side, side, 3], interpolated linearly between pixel centres."""
    s = grey.shape[1]
    place = np.clip((np.arange(side) + 0.5) * s / side - 0.5, 0, s - 1)
    weight = np.clip(1 - np.abs(place[:, None] - np.arange(s)), 0, 1).astype(
        np.float32
    )  # [side, s] tents
    large = np.rint(weight @ grey.astype(np.float32) @ weight.T).astype(np.uint8)
    return np.repeat(large[..., None], 3, axis=3)
