"""CIFAR-FS: the 100 classes of CIFAR-100, training and test images together, split 64/16/20 by class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names
from anyshot.data.published.readers import check_integers, damaged_file, read_pickle, to_strings


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`cifar-100-python.tar.gz`: the pickles `meta`, `train` and `test` in one folder."""
    for meta in tree.matching("meta"):
        parts = [meta.with_name(part) for part in ("train", "test")]
        if all(part in tree.files for part in parts):
            return _classes(meta, parts, splits)
    return None


def _classes(meta: Path, parts: list[Path], splits: Splits) -> ClassImages:
    names = to_strings(read_pickle(meta).get("fine_label_names"))
    missing = [name for name in class_names(splits) if name not in names]
    if missing:
        raise damaged_file(meta, f"there is no class {missing[0]!r}")
    images, labels = [], []
    for part in parts:
        content = read_pickle(part)
        data, fine = content.get("data"), content.get("fine_labels")
        fine = check_integers(part, "its 'fine_labels'", fine, 0, len(names) - 1)
        if (
            not isinstance(data, np.ndarray)
            or data.dtype != np.uint8
            or data.shape != (len(fine), 3072)
        ):
            raise damaged_file(part, "its 'data' is not uint8 [n, 3072] with n 'fine_labels'")
        images.append(data)
        labels.append(fine)
    for name in class_names(splits):
        rows = [data[fine == names.index(name)] for data, fine in zip(images, labels, strict=True)]
        pixels = np.concatenate(rows).reshape(
            -1, 3, 32, 32
        )  # a row is the red, green and blue planes
        yield name, np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))


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
    remotes=(
        RemoteFile(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            size=169_001_437,
        ),
    ),
)
