"""A set on disk: `images.npy` (all images, class after class) and `set.json` (names, splits, kind, notes, checksum)."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.atomic_folders import atomic_folder
from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages, read_json, write_json

SPLITS = ("train", "validation", "test")
SPLIT_NAMES = {split: split for split in SPLITS} | {
    "val": "validation",
    "valid": "validation",
}  # as people call them
KINDS = {
    "photographs": True,
    "drawings": True,
    "characters": False,
    "signs": False,
}  # kind -> may be seen in a mirror
FORMAT = 1
HEADER = 128  # bytes that NumPy's header takes for any shape of four numbers that fits on a disk


@dataclass
class ImageSetWriter:
    """Takes one class after another; what it holds when the block of `create` ends is the set."""

    file: FileIO
    size: tuple[int, int]
    splits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    kind: str = "photographs"
    counts: dict[str, int] = field(default_factory=dict)
    sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, label: str, images: NDArray[np.uint8]) -> None:
        """Append images uint8 [n, height, width, 3] to class `label`, which is the latest class or a new one."""
        if images.dtype != np.uint8 or images.shape[1:] != (*self.size, 3):
            raise AnyshotError(
                f"Images of class {label!r} are {images.dtype} {list(images.shape)}, not uint8 {self.size}."
            )
        if not len(images):
            raise AnyshotError(f"There are no images of class {label!r}; leave it out.")
        if label in self.counts and label != list(self.counts)[-1]:
            raise AnyshotError(
                f"Class {label!r} was written before another class; classes come one after another."
            )
        data = np.ascontiguousarray(images).data
        self.write(data)
        self.sha256.update(data)
        self.counts[label] = self.counts.get(label, 0) + len(images)

    def write(self, data: bytes | memoryview) -> None:
        """Write all of it, or say what is in the way: a full disk, for instance."""
        rest = memoryview(data).cast("B")
        with os_errors_as_messages("write", Path(self.file.name)):
            while rest:
                rest = rest[self.file.write(rest) :]


@contextmanager
def write_image_set(
    folder: str | Path,
    name: str,
    size: tuple[int, int],
    splits: Mapping[str, Sequence[str]] | None = None,
    notes: Mapping[str, Any] | None = None,
    kind: str = "photographs",
) -> Iterator[ImageSetWriter]:
    """Write a set class by class; the folder appears, whole, when the block ends well, and not at all otherwise.

    with create("cache/pets", "pets", (32, 32), {"train": ["cat", "dog"]}) as writer:
        writer.add("cat", cats)
        writer.add("dog", dogs)
    """
    with atomic_folder(Path(folder)) as temporary:
        with open(
            temporary / "images.npy", "wb", buffering=0
        ) as file:  # unbuffered: what fails, fails in `write`
            writer = ImageSetWriter(file, size, splits or {}, dict(notes or {}), kind)
            writer.write(bytes(HEADER))
            yield writer
            file.seek(0)
            writer.write(_npy_header((sum(writer.counts.values()), *size, 3)))
        if not writer.counts:
            raise AnyshotError(f"{name!r} has no classes; an image set needs at least one.")
        classes = tuple(writer.counts)
        about = {
            "format": FORMAT,
            "name": name,
            "classes": classes,
            "starts": class_starts(list(writer.counts.values())),
            "splits": split_indices(name, classes, writer.splits),
            "kind": writer.kind,
            "notes": writer.notes,
            "sha256": writer.sha256.hexdigest(),
        }
        check_splits(name, about["splits"], len(classes))
        check_kind(name, writer.kind)
        write_json(temporary / "set.json", about)


def read_metadata(folder: Path) -> dict[str, Any]:
    """The contents of set.json."""
    if not (folder / "set.json").is_file():
        raise AnyshotError(f"{folder} holds no image set (there is no set.json in it).")
    about = read_json(folder / "set.json")
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise AnyshotError(
            f"{folder} was written in another format than {FORMAT}; delete the folder and make it again."
        )
    return about


def class_starts(counts: Sequence[int]) -> NDArray[np.int64]:
    """Where each class begins, and the total: int64 [classes + 1]."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def pixel_checksum(images: NDArray[np.uint8]) -> str:
    """SHA-256 of the pixels."""
    return hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()


def split_indices(
    name: str, classes: Sequence[str], splits: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, ...]]:
    """Splits by class name, under any of their names, as splits by class index."""
    place = {label: c for c, label in enumerate(classes)}
    unknown = [label for members in splits.values() for label in members if label not in place]
    if unknown:
        raise AnyshotError(
            f"The splits of {name!r} name {unknown[0]!r}, which is not one of its {len(place)} classes."
        )
    indices: dict[str, tuple[int, ...]] = {}
    for split, members in splits.items():
        usual = SPLIT_NAMES.get(split, split)
        indices[usual] = (*indices.get(usual, ()), *(place[label] for label in members))
    return indices


def check_splits(name: str, splits: Mapping[str, Sequence[int]], classes: int) -> None:
    """Splits have known names, know only classes that exist, and share none."""
    strange = [split for split in splits if split not in SPLITS]
    if strange:
        raise AnyshotError(
            f"{name!r} has a split {strange[0]!r}; splits are called {', '.join(SPLITS)}."
        )
    listed = [c for members in splits.values() for c in members]
    if len(set(listed)) != len(listed):
        raise AnyshotError(
            f"A class of {name!r} is in two splits; every class belongs to at most one."
        )
    if not all(isinstance(c, Integral) and 0 <= c < classes for c in listed):
        raise AnyshotError(f"The splits of {name!r} name classes beyond its {classes}.")


def check_kind(name: str, kind: str) -> None:
    """The kind is one of those of which it is known what may be done to an image."""
    if kind not in KINDS:
        raise AnyshotError(
            f"{name!r} is said to hold {kind!r}; kinds of images are {', '.join(KINDS)}."
        )


def _npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    assert buffer.tell() == HEADER
    return buffer.getvalue()
