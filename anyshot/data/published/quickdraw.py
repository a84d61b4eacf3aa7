"""Quick, Draw!: 345 kinds of drawings, 200 each, 28 x 28 enlarged to 32 x 32, split 241/52/52 by class.

An official file holds some hundred thousand drawings in no particular order; the first 200 are taken, so only the
first 157 kB of each file need to be fetched.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from anyshot.core.errors import AnyshotError
from anyshot.data.published.archives import SourceFiles
from anyshot.data.published.dataset import ClassImages, PublishedDataset, RemoteFile, Splits
from anyshot.data.published.image_files import class_names, enlarge
from anyshot.data.published.readers import read_rows

SIDE = 32
DRAWINGS = 200
ADDRESS = "https://storage.googleapis.com/quickdraw_dataset/full/numpy_bitmap/"


def read(tree: SourceFiles, splits: Splits) -> ClassImages | None:
    """`numpy_bitmap/*.npy`, one file a class: uint8 [n, 784], white on black."""
    found = {path.stem: path for path in tree.matching("*.npy")}
    found |= {
        stem.removeprefix("full_numpy_bitmap_"): path for stem, path in found.items()
    }  # as browsers save them
    names = class_names(splits)
    missing = [name for name in names if name not in found]
    if len(missing) == len(names):
        return None
    if missing:
        raise AnyshotError(
            f"The source lacks {len(missing)} of {len(names)} files, for instance {missing[0]}.npy; fetch them."
        )
    return _classes(found, names)


def _classes(found: dict[str, Path], names: list[str]) -> ClassImages:
    for name in names:
        rows = read_rows(found[name], DRAWINGS, 784)
        yield name, enlarge(rows.reshape(-1, 28, 28), SIDE)


def _remotes() -> tuple[RemoteFile, ...]:
    splits = json.loads(
        files("anyshot.data.published").joinpath("splits", "quickdraw.json").read_text("utf-8")
    )
    names = sorted(name for split in ("train", "validation", "test") for name in splits[split])
    return tuple(
        RemoteFile(f"{ADDRESS}{quote(name)}.npy", first_bytes=128 + DRAWINGS * 784)
        for name in names
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
    remotes=_remotes(),
    kind="drawings",
)
