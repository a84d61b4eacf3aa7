"""Quick, Draw!: 345 kinds of drawings, 200 each, 28 x 28 enlarged to 32 x 32, split 241/52/52.

An official file has more than a hundred thousand drawings in no particular order. The first 200 are
used, so that only the first 157 kB of each file are downloaded.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from anyshot.core.errors import DataError
from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names, enlarge
from anyshot.data.published.readers import read_rows
from anyshot.data.storage import SPLITS

SIDE = 32
DRAWINGS = 200
ADDRESS = "https://storage.googleapis.com/quickdraw_dataset/full/numpy_bitmap/"
BROWSER_PREFIX = "full_numpy_bitmap_"  # browsers save the files under these names


def read(source: SourceFiles, splits: Splits) -> ClassImages | None:
    """Read `numpy_bitmap/*.npy`, one file per class: uint8 [n, 784], white on black."""
    arrays = {path.stem: path for path in source.find_all("*.npy")}
    arrays |= {stem.removeprefix(BROWSER_PREFIX): path for stem, path in arrays.items()}
    names = class_names(splits)
    missing = [name for name in names if name not in arrays]
    if len(missing) == len(names):
        return None
    if missing:
        raise DataError(
            f"The source lacks {len(missing)} of {len(names)} files, for instance "
            f"{missing[0]}.npy; download them."
        )
    return _read_classes(arrays, names)


def _read_classes(arrays: dict[str, Path], names: list[str]) -> ClassImages:
    for name in names:
        rows = read_rows(arrays[name], DRAWINGS, 784)
        yield name, enlarge(rows.reshape(-1, 28, 28), SIDE)


def _remote_files() -> tuple[RemoteFile, ...]:
    path = files("anyshot.data.published").joinpath("splits", "quickdraw.json")
    splits = json.loads(path.read_text("utf-8"))
    names = sorted(name for split in SPLITS for name in splits[split])
    first_bytes = 128 + DRAWINGS * 784
    return tuple(
        RemoteFile(f"{ADDRESS}{quote(name)}.npy", first_bytes=first_bytes) for name in names
    )


DATASET = PublishedDataset(
    name="quickdraw",
    title="Quick, Draw!",
    images=345 * DRAWINGS,
    side=SIDE,
    terms="CC BY 4.0",
    homepage="https://github.com/googlecreativelab/quickdraw-dataset",
    source_files="the 345 files numpy_bitmap/*.npy",
    patterns=("*.npy",),
    read=read,
    images_per_class=DRAWINGS,
    remotes=_remote_files(),
    kind="drawings",
)
