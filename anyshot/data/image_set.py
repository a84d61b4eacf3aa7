"""`ImageSet`: uint8 images grouped by class, with train, validation and test splits **by class**.

A saved set (see `storage`) is memory-mapped: 60,000 images open in milliseconds and take no memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import DataError
from anyshot.core.options import suggestion
from anyshot.data.class_splits import default_shares, split_by_seed
from anyshot.data.from_dataset import LabelledDataset, group_by_class
from anyshot.data.storage import (
    KINDS,
    SPLIT_NAMES,
    canonical_split,
    check_kind,
    check_splits,
    class_starts,
    pixel_checksum,
    read_metadata,
    split_indices,
    write_image_set,
)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images grouped by class, with class splits.

    Make one with :func:`anyshot.open_images`, `ImageSet.from_arrays`, `ImageSet.from_dataset` or
    `ImageSet.open`.

    Parameters
    ----------
    name : str
        Short name, for example "glyphs".
    images : ndarray, uint8 [total, height, width, 3]
        All images, grouped by class; read-only.
    classes : tuple of str
        Class names.
    starts : ndarray, int64 [classes + 1]
        Class c is `images[starts[c]:starts[c + 1]]`.
    splits : dict
        "train", "validation" and "test" -> class indices; no class is in two splits.
    notes : dict
        Additional facts: source, seed of the split, skipped files, parts of official files.
    kind : {"photographs", "drawings", "characters", "signs"}
        Kind of images; it decides whether they may be mirrored.
    folder : Path, optional
        Folder of a saved set.
    sha256 : str, optional
        Checksum of the pixels, recorded when the set was saved.

    Raises
    ------
    DataError
        Arrays, classes, splits or kind do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> pixels = np.zeros((4, 32, 32, 3), np.uint8)
    >>> arrays = {"cat": pixels, "dog": pixels[:3]}
    >>> pets = ImageSet.from_arrays("pets", arrays, {"train": ["cat", "dog"]})
    >>> pets.images_of("dog").shape
    (3, 32, 32, 3)
    """

    name: str
    images: NDArray[np.uint8]
    classes: tuple[str, ...]
    starts: NDArray[np.int64]
    splits: dict[str, tuple[int, ...]]
    notes: dict[str, Any] = field(default_factory=dict)
    kind: str = "photographs"
    folder: Path | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        shape = self.images.shape
        dtype = self.images.dtype
        if dtype != np.uint8 or len(shape) != 4 or shape[3] != 3:
            raise DataError(
                f"Images of {self.name!r} are {dtype} {list(shape)}; they must be uint8 "
                "[n, height, width, 3], or [n, height, width] for grey images."
            )
        if not all(isinstance(text, str) for text in (self.name, *self.classes)):
            raise DataError(
                f"The name {self.name!r} or one of its class names is not a string; name every "
                "class."
            )
        if len(set(self.classes)) < len(self.classes):
            raise DataError(f"Two classes of {self.name!r} have the same name; rename one.")
        increasing = (
            len(self.starts) == len(self.classes) + 1
            and self.starts[0] == 0
            and (np.diff(self.starts) > 0).all()
        )
        if not increasing or self.starts[-1] != len(self.images):
            raise DataError(
                f"The classes of {self.name!r} do not cover its {len(self.images)} images, or "
                "one is empty; starts must increase from 0 to the number of images."
            )
        splits = {SPLIT_NAMES.get(split, split): tuple(c) for split, c in self.splits.items()}
        object.__setattr__(self, "splits", splits)
        check_splits(self.name, self.splits, len(self.classes))
        check_kind(self.name, self.kind)
        images = self.images.view()
        images.flags.writeable = False
        object.__setattr__(self, "images", images)

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes get the folder of a saved set instead of its pixels.
        if self.folder is not None:
            return _reopen, (self.folder, self.splits)
        values = (self.name, self.images, self.classes, self.starts, self.splits, self.notes)
        return ImageSet, (*values, self.kind)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        splits = ", ".join(f"{split} {len(members)}" for split, members in self.splits.items())
        height, width = self.size
        return f"ImageSet({self.name!r}, {len(self)} images {height}x{width}, classes: {splits})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of images of each class, int64 [classes]."""
        return np.diff(self.starts)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Files that could not be used, each with the reason."""
        return [(path, reason) for path, reason in self.notes.get("skipped", [])]

    def part_of_official(self, split: str) -> str:
        """Describe which part of a published split was prepared; empty for all of it.

        For example "7,300 of 26,032 official test images", for captions.
        """
        parts = self.notes.get("part", {})
        split = canonical_split(split)
        for key, what in ((split, f"official {split} images"), ("all", "official images")):
            if key in parts:
                prepared, official = parts[key]
                return f"{prepared:,} of {official:,} {what}"
        return ""

    @property
    def flip_invariant(self) -> bool:
        """Whether a mirrored image still belongs to its class (birds do, letters do not)."""
        return KINDS[self.kind]

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of class names, class sizes and pixels; it does not depend on the splits.

        A saved set has its pixel checksum recorded, so that no image is read.
        """
        classes = [
            [label, int(count)] for label, count in zip(self.classes, self.counts, strict=True)
        ]
        text = json.dumps([self.sha256 or pixel_checksum(self.images), classes])
        return hashlib.sha256(text.encode()).hexdigest()

    def images_of(self, c: int | str) -> NDArray[np.uint8]:
        """Return a view of one class, by index or name: uint8 [n, height, width, 3]."""
        if isinstance(c, str):
            if c not in self.classes:
                raise DataError(f"{self.name!r} has no class {c!r}{suggestion(c, self.classes)}")
            c = self.classes.index(c)
        return self.images[self.starts[c] : self.starts[c + 1]]

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, NDArray[np.uint8]],
        splits: Mapping[str, Sequence[str]] | None = None,
        notes: Mapping[str, Any] | None = None,
        kind: str = "photographs",
    ) -> ImageSet:
        """Make an image set in memory.

        Parameters
        ----------
        name : str
            Name of the set.
        arrays : mapping
            Class name -> images, uint8 [n, height, width, 3], or [n, height, width] for grey
            images.
        splits : mapping, optional
            "train", "val" or "validation", "test" -> class names. Default: 60/20/20 % of the
            classes, always the same.
        notes : mapping, optional
            Additional facts to record.
        kind : {"photographs", "drawings", "characters", "signs"}
            Kind of images.

        Returns
        -------
        ImageSet

        Examples
        --------
        >>> digits = {str(digit): np.zeros((20, 28, 28), np.uint8) for digit in range(10)}
        >>> ImageSet.from_arrays("grey", digits, kind="characters")
        ImageSet('grey', 200 images 28x28, classes: train 6, validation 2, test 2)
        """
        if not arrays:
            raise DataError(f"{name!r} has no classes; an image set needs at least one.")
        colour = {label: _to_rgb(np.asarray(array)) for label, array in arrays.items()}
        if len({array.shape[1:] for array in colour.values()}) > 1:
            raise DataError(
                f"The classes of {name!r} differ in image size; resize all images to one size "
                "first."
            )
        if splits is None:
            splits = split_by_seed(list(arrays), default_shares(name, len(arrays)), seed=0)
        return cls(
            name,
            np.concatenate(list(colour.values())),
            tuple(arrays),
            class_starts([len(array) for array in colour.values()]),
            split_indices(name, tuple(arrays), splits),
            dict(notes or {}),
            kind,
        )

    @classmethod
    def from_dataset(
        cls,
        name: str,
        dataset: LabelledDataset,
        splits: Mapping[str, Sequence[str]] | None = None,
        *,
        size: int | None = None,
        kind: str = "photographs",
    ) -> ImageSet:
        """Make an image set in memory from a labelled data set, for example one of torchvision.

        Parameters
        ----------
        name : str
            Name of the set.
        dataset : sequence of (image, label)
            Any object with a length and indices. Images are PIL images or uint8 arrays [height,
            width] or [height, width, 3]. Labels are class names, or integers that index
            `dataset.classes` if that list exists.
        splits : mapping, optional
            "train", "val" or "validation", "test" -> class names. Default: 60/20/20 % of the
            classes, always the same.
        size : int, optional
            Side to which images are resized and cropped. Default: images are used as they are and
            must have equal sizes.
        kind : {"photographs", "drawings", "characters", "signs"}
            Kind of images.

        Returns
        -------
        ImageSet

        Raises
        ------
        DataError
            An item is not a pair, a label is neither integer nor name, or image sizes differ.

        Examples
        --------
        >>> images = [np.full((8, 8), 10 * n, np.uint8) for n in range(6)]
        >>> pairs = [(image, ("even", "odd")[n % 2]) for n, image in enumerate(images)]
        >>> ImageSet.from_dataset("parity", pairs, {"test": ["odd", "even"]})
        ImageSet('parity', 6 images 8x8, classes: test 2)
        """
        return cls.from_arrays(name, group_by_class(name, dataset, size), splits, kind=kind)

    def save(self, folder: str | Path) -> ImageSet:
        """Save the set to a folder, completely or not at all, and return the saved set."""
        splits = {
            split: [self.classes[c] for c in members] for split, members in self.splits.items()
        }
        with write_image_set(folder, self.name, self.size, splits, self.notes, self.kind) as writer:
            for c, label in enumerate(self.classes):
                writer.add(label, self.images_of(c))
        return ImageSet.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> ImageSet:
        """Open a saved set; images are read from disk when they are used."""
        folder = Path(folder)
        metadata = read_metadata(folder)
        try:
            images = np.load(folder / "images.npy", mmap_mode="r")
            opened = cls(
                metadata["name"],
                images,
                tuple(metadata["classes"]),
                np.array(metadata["starts"], np.int64),
                {split: tuple(members) for split, members in metadata["splits"].items()},
                metadata["notes"],
                metadata["kind"],
                folder,
                str(metadata["sha256"]),
            )
            if not isinstance(opened.skipped, list) or not isinstance(opened.notes, dict):
                raise ValueError("its notes are malformed")
            return opened
        except Exception as error:  # a malformed file raises almost anything
            raise DataError(
                f"The image set in {folder} is damaged ({error}); delete the folder and make it "
                "again."
            ) from error

    def check(self) -> None:
        """Compare all pixels of a saved set with the checksum recorded when it was saved."""
        if self.folder is not None and pixel_checksum(self.images) != self.sha256:
            raise DataError(
                f"The pixels in {self.folder} do not match their checksum; delete the folder "
                "and make it again."
            )


def _to_rgb(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeat the grey values of [n, height, width] or [n, height, width, 1] in three channels."""
    if images.ndim == 3 and images.shape[2] != 3:  # [n, height, 3] is more likely one colour image
        images = images[..., None]
    return np.repeat(images, 3, axis=3) if images.ndim == 4 and images.shape[3] == 1 else images


def _reopen(folder: Path, splits: dict[str, tuple[int, ...]]) -> ImageSet:
    return replace(ImageSet.open(folder), splits=splits)
