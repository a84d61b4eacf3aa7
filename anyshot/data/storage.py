"""Image sets on disk: `images.npy` (images, grouped by class) and `set.json` (everything else)."""

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
from anyshot.core.errors import DataError
from anyshot.core.files import os_errors_as_messages, read_json, write_json

SPLITS = ("train", "validation", "test")
SPLIT_NAMES = {split: split for split in SPLITS} | {"val": "validation", "valid": "validation"}
# Kind of images -> whether a mirrored image still belongs to its class.
KINDS = {"photographs": True, "drawings": True, "characters": False, "signs": False}
FORMAT = 1
# NumPy's header has this length for every 4-dimensional shape that fits on a disk.
HEADER_BYTES = 128


@dataclass
class ImageSetWriter:
    """Writes the images of one class after another; made by `write_image_set`."""

    file: FileIO
    size: tuple[int, int]
    splits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    kind: str = "photographs"
    counts: dict[str, int] = field(default_factory=dict)
    sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, label: str, images: NDArray[np.uint8]) -> None:
        """Append images uint8 [n, height, width, 3] to `label`, a new class or the latest one."""
        if images.dtype != np.uint8 or images.shape[1:] != (*self.size, 3):
            height, width = self.size
            raise DataError(
                f"Images of class {label!r} are {images.dtype} {list(images.shape)}; "
                f"expected uint8 [n, {height}, {width}, 3]."
            )
        if not len(images):
            raise DataError(f"Class {label!r} has no images; omit it.")
        if label in self.counts and label != list(self.counts)[-1]:
            raise DataError(
                f"Class {label!r} was already written before another class; add the images of a "
                "class one after another."
            )
        data = np.ascontiguousarray(images).data
        self.write(data)
        self.sha256.update(data)
        self.counts[label] = self.counts.get(label, 0) + len(images)

    def write(self, data: bytes | memoryview) -> None:
        """Write all bytes; a full disk and similar errors become a message."""
        remaining = memoryview(data).cast("B")
        with os_errors_as_messages("write", Path(self.file.name)):
            while remaining:
                remaining = remaining[self.file.write(remaining) :]


@contextmanager
def write_image_set(
    folder: str | Path,
    name: str,
    size: tuple[int, int],
    splits: Mapping[str, Sequence[str]] | None = None,
    notes: Mapping[str, Any] | None = None,
    kind: str = "photographs",
) -> Iterator[ImageSetWriter]:
    """Write an image set class by class.

    The folder appears, complete, when the block ends without an error, and not at all otherwise.

    with write_image_set("cache/pets", "pets", (32, 32), {"train": ["cat", "dog"]}) as writer:
        writer.add("cat", cats)
        writer.add("dog", dogs)
    """
    with atomic_folder(Path(folder)) as temporary:
        # Without a buffer, an error occurs in `write`, not when the file is closed.
        with open(temporary / "images.npy", "wb", buffering=0) as file:
            writer = ImageSetWriter(file, size, splits or {}, dict(notes or {}), kind)
            writer.write(bytes(HEADER_BYTES))
            yield writer
            file.seek(0)
            writer.write(_npy_header((sum(writer.counts.values()), *size, 3)))
        if not writer.counts:
            raise DataError(f"{name!r} has no classes; an image set needs at least one.")
        classes = tuple(writer.counts)
        metadata = {
            "format": FORMAT,
            "name": name,
            "classes": classes,
            "starts": class_starts(list(writer.counts.values())),
            "splits": split_indices(name, classes, writer.splits),
            "kind": writer.kind,
            "notes": writer.notes,
            "sha256": writer.sha256.hexdigest(),
        }
        check_splits(name, metadata["splits"], len(classes))
        check_kind(name, writer.kind)
        write_json(temporary / "set.json", metadata)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the contents of set.json."""
    if not (folder / "set.json").is_file():
        raise DataError(f"{folder} is not an image set: it has no set.json.")
    metadata = read_json(folder / "set.json")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise DataError(
            f"{folder} was written in another format than {FORMAT}; delete the folder and make "
            "it again."
        )
    return metadata


def class_starts(counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the index of each class's first image, and the total: int64 [classes + 1]."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def pixel_checksum(images: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of the pixels."""
    return hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()


def canonical_split(split: str) -> str:
    """Return "train", "validation" or "test" for a split name; "val" and "valid" mean validation.

    >>> canonical_split("val")
    'validation'
    """
    if split not in SPLIT_NAMES:
        raise DataError(f"There is no split {split!r}; splits are {', '.join(SPLITS)}.")
    return SPLIT_NAMES[split]


def split_indices(
    name: str, classes: Sequence[str], splits: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, ...]]:
    """Convert splits from class names to class indices; "val" and "valid" become "validation"."""
    index = {label: c for c, label in enumerate(classes)}
    unknown = [label for members in splits.values() for label in members if label not in index]
    if unknown:
        raise DataError(
            f"The splits of {name!r} name {unknown[0]!r}, which is not one of its {len(index)} "
            "classes."
        )
    indices: dict[str, tuple[int, ...]] = {}
    for split, members in splits.items():
        canonical = SPLIT_NAMES.get(split, split)
        indices[canonical] = (*indices.get(canonical, ()), *(index[label] for label in members))
    return indices


def check_splits(name: str, splits: Mapping[str, Sequence[int]], classes: int) -> None:
    """Check that splits have known names, contain existing classes, and share none."""
    unknown = [split for split in splits if split not in SPLITS]
    if unknown:
        raise DataError(f"{name!r} has a split {unknown[0]!r}; splits are {', '.join(SPLITS)}.")
    members = [c for split in splits.values() for c in split]
    if len(set(members)) != len(members):
        raise DataError(f"A class of {name!r} is in two splits; each class belongs to at most one.")
    if not all(isinstance(c, Integral) and 0 <= c < classes for c in members):
        raise DataError(f"The splits of {name!r} contain classes beyond its {classes}.")


def check_kind(name: str, kind: str) -> None:
    """Check that the kind of images is one of `KINDS`."""
    if kind not in KINDS:
        raise DataError(f"The kind of {name!r} is {kind!r}; expected one of {', '.join(KINDS)}.")


def _npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    assert buffer.tell() == HEADER_BYTES
    return buffer.getvalue()
