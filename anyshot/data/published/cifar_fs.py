"""CIFAR-FS: the 100 classes of CIFAR-100, training and test images, split 64/16/20 by class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names
from anyshot.data.published.readers import (
    check_integers,
    check_pixels,
    damaged_file_error,
    read_pickle,
    to_strings,
)


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `cifar-100-python.tar.gz`: the pickles `meta`, `train` and `test` of one folder."""
    for meta in source.find_all("meta"):
        parts = [meta.with_name(part) for part in ("train", "test")]
        if all(part in source.files for part in parts):
            return _read_classes(meta, parts, splits)
    return None


def _read_classes(meta: Path, parts: list[Path], splits: Splits) -> ClassImages:
    names = to_strings(read_pickle(meta).get("fine_label_names"))
    missing = [name for name in class_names(splits) if name not in names]
    if missing:
        raise damaged_file_error(meta, f"there is no class {missing[0]!r}")
    images, labels = zip(*(_read_part(part, len(names)) for part in parts), strict=True)
    for name in class_names(splits):
        label = names.index(name)
        rows = [data[fine == label] for data, fine in zip(images, labels, strict=True)]
        planes = np.concatenate(rows).reshape(-1, 3, 32, 32)  # red, green, blue
        yield name, np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _read_part(part: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 [n, 3072] and labels int64 [n]."""
    content = read_pickle(part)
    data = check_pixels(part, "its 'data'", content.get("data"), (3072,))
    labels = check_integers(part, "its 'fine_labels'", content.get("fine_labels"), 0, classes - 1)
    if len(data) != len(labels):
        raise damaged_file_error(part, f"it has {len(data)} images and {len(labels)} 'fine_labels'")
    return data, labels


DATASET = PublishedDataset(
    name="cifar-fs",
    title="CIFAR-FS (CIFAR-100)",
    images=60_000,
    side=32,
    terms="no licence stated; cite Krizhevsky 2009",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    source_files="cifar-100-python.tar.gz",
    patterns=("meta", "train", "test"),
    read=read,
    images_per_class=600,
    remotes=(
        RemoteFile(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            size=169_001_437,
        ),
    ),
)
