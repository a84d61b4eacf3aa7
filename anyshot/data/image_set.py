"""`ImageSet`: uint8 images grouped by class, split into train, validation and test **by class**.

A set that lies on disk (see `storage`) is mapped into memory: 60,000 images open in milliseconds and take no memory.
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

from anyshot.core.errors import AnyshotError
from anyshot.data.class_splits import default_shares, split_by_seed
from anyshot.data.from_dataset import LabelledDataset, group_by_class
from anyshot.data.storage import (
    KINDS,
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
    """Images grouped by class.

    name     short name, such as "glyphs"
    images   uint8 [total, height, width, 3], read-only, class after class
    classes  class names
    starts   int64 [classes + 1]; class c is images[starts[c]:starts[c + 1]]
    splits   "train", "validation", "test" -> class indices, no class in two of them
    notes    what is worth recording: source, seed of the split, skipped files ...
    kind     "photographs", "drawings", "characters" or "signs": what may be done to an image without changing its class
    folder   where a saved set lies
    sha256   of the pixels, as recorded when the set was saved

    >>> import numpy as np
    >>> pixels = np.zeros((4, 32, 32, 3), np.uint8)
    >>> pets = ImageSet.from_arrays("pets", {"cat": pixels, "dog": pixels[:3]}, {"train": ["cat", "dog"]})
    >>> pets.of("dog").shape
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
        shape, dtype = self.images.shape, self.images.dtype
        if dtype != np.uint8 or len(shape) != 4 or shape[3] != 3:
            raise AnyshotError(
                f"Images of {self.name!r} are {dtype} {list(shape)}; they must be uint8 [number, height, width, 3], "
                f"or [number, height, width] for grey ones."
            )
        if not all(isinstance(text, str) for text in (self.name, *self.classes)):
            raise AnyshotError(
                f"The name {self.name!r} or a class of it is no string; name every class."
            )
        if len(set(self.classes)) < len(self.classes):
            raise AnyshotError(f"Two classes of {self.name!r} have one name; give each its own.")
        rising = (
            len(self.starts) == len(self.classes) + 1
            and self.starts[0] == 0
            and (np.diff(self.starts) > 0).all()
        )
        if not rising or self.starts[-1] != len(self.images):
            raise AnyshotError(
                f"The classes of {self.name!r} do not cover its {len(self.images)} images, or one is empty; "
                f"starts must rise from 0 to the number of images."
            )
        check_splits(self.name, self.splits, len(self.classes))
        check_kind(self.name, self.kind)
        images = self.images.view()
        images.flags.writeable = False
        object.__setattr__(self, "images", images)

    def __reduce__(self) -> tuple[Any, ...]:
        # A set that lies on disk travels to worker processes as its address, not as its pixels.
        if self.folder is not None:
            return _reopen, (self.folder, self.splits)
        return ImageSet, (
            self.name,
            self.images,
            self.classes,
            self.starts,
            self.splits,
            self.notes,
            self.kind,
        )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        parts = ", ".join(f"{split} {len(members)}" for split, members in self.splits.items())
        return f"ImageSet({self.name!r}, {len(self)} images {self.size[0]}x{self.size[1]}, classes: {parts})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of images of each class, int64 [classes]."""
        return np.diff(self.starts)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Files that could not be used, each with the reason."""
        return [(path, reason) for path, reason in self.notes.get("skipped", [])]

    @property
    def flip_invariant(self) -> bool:
        """Whether the mirror image of an image is still one of its class: so for a bird, not for a letter."""
        return KINDS[self.kind]

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of names, sizes and pixels of the classes: equal for equal images, however they are split.

        A saved set has the sum of its pixels recorded, so this reads none of them; one in memory is summed once.
        """
        classes = [
            [label, int(count)] for label, count in zip(self.classes, self.counts, strict=True)
        ]
        text = json.dumps([self.sha256 or pixel_checksum(self.images), classes])
        return hashlib.sha256(text.encode()).hexdigest()

    def images_of(self, c: int | str) -> NDArray[np.uint8]:
        """The images of one class (index or name) as a view, uint8 [n, height, width, 3]."""
        if isinstance(c, str):
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
        """Make a set in memory.

        arrays   {class name: uint8 [n, height, width, 3]}, or [n, height, width] for grey images
        splits   {"train", "val" or "test": class names}; None deals the classes 60/20/20, every time in the same way

        >>> digits = {str(digit): np.zeros((20, 28, 28), np.uint8) for digit in range(10)}
        >>> ImageSet.from_arrays("grey", digits, kind="characters")
        ImageSet('grey', 200 images 28x28, classes: train 6, validation 2, test 2)
        """
        if not arrays:
            raise AnyshotError(f"{name!r} has no classes; an image set needs at least one.")
        colour = {label: _to_rgb(np.asarray(array)) for label, array in arrays.items()}
        if len({array.shape[1:] for array in colour.values()}) > 1:
            raise AnyshotError(
                f"The classes of {name!r} differ in image size; resize all images to one size first."
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
        """Make a set in memory from a data set such as torchvision's: `dataset[i]` is (image, label), and it has a len.

        dataset  images are PIL images or uint8 arrays [height, width] or [height, width, 3]; labels are numbers that
                 index `dataset.classes`, where there is such a list, or names
        splits   {"train", "val" or "test": class names}; None deals the classes 60/20/20, every time in the same way
        size     side to which all images are resized; None takes images that are all of one size as they are

        >>> pairs = [(np.full((8, 8), 10 * n, np.uint8), "even" if n % 2 == 0 else "odd") for n in range(6)]
        >>> ImageSet.from_dataset("parity", pairs, {"test": ["odd", "even"]})
        ImageSet('parity', 6 images 8x8, classes: test 2)
        """
        return cls.from_arrays(name, group_by_class(name, dataset, size), splits, kind=kind)

    def save(self, folder: str | Path) -> ImageSet:
        """Write the set to a folder that does not exist yet, whole or not at all, and open it there."""
        splits = {
            split: [self.classes[c] for c in members] for split, members in self.splits.items()
        }
        with write_image_set(folder, self.name, self.size, splits, self.notes, self.kind) as writer:
            for c, label in enumerate(self.classes):
                writer.add(label, self.images_of(c))
        return ImageSet.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> ImageSet:
        """Open a saved set; the images stay on disk until they are looked at."""
        folder = Path(folder)
        about = read_metadata(folder)
        try:
            images = np.load(folder / "images.npy", mmap_mode="r")
            opened = cls(
                about["name"],
                images,
                tuple(about["classes"]),
                np.array(about["starts"], np.int64),
                {split: tuple(members) for split, members in about["splits"].items()},
                about["notes"],
                about["kind"],
                folder,
                str(about["sha256"]),
            )
            assert isinstance(opened.skipped, list)  # the notes are notes
            return opened
        except Exception as error:  # a malformed file raises almost anything
            raise AnyshotError(
                f"The image set in {folder} is damaged ({error}); delete the folder and make it again."
            ) from error

    def check(self) -> None:
        """Read every pixel of a saved set and compare with the checksum recorded when it was made."""
        if self.folder is not None and pixel_checksum(self.images) != self.sha256:
            raise AnyshotError(
                f"The pixels in {self.folder} are not the ones that were written; delete the folder and make it again."
            )


def _to_rgb(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n, height, width] or [n, height, width, 1] as [n, height, width, 3], the same grey three times."""
    if images.ndim == 3 and images.shape[2] != 3:  # which would be one image in colour
        images = images[..., None]
    return np.repeat(images, 3, axis=3) if images.ndim == 4 and images.shape[3] == 1 else images


def _reopen(folder: Path, splits: dict[str, tuple[int, ...]]) -> ImageSet:
    return replace(ImageSet.open(folder), splits=splits)
