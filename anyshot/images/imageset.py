"""`ImageSet`: uint8 images grouped by class, split into train, validation and test **by class**.

On disk a set is a folder of two files: `images.npy` (all images, class after class) and `set.json` (names, where each
class begins, splits, notes). Opening maps the first file into memory, so 60,000 images open in milliseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.errors import AnyshotError
from anyshot.files import fresh_folder, read_json, write_json

SPLITS = ("train", "validation", "test")
FORMAT = 1


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images grouped by class.

    name     short name, such as "glyphs"
    images   uint8 [total, height, width, 3], read-only, class after class
    classes  class names
    starts   int64 [classes + 1]; class c is images[starts[c]:starts[c + 1]]
    splits   "train", "validation", "test" -> class indices, no class in two of them
    notes    what is worth recording: source, seed of the split, skipped files ...

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
    folder: Path | None = None

    def __post_init__(self) -> None:
        shape, dtype = self.images.shape, self.images.dtype
        if dtype != np.uint8 or len(shape) != 4 or shape[3] != 3:
            raise AnyshotError(
                f"Images of {self.name!r} are {dtype} {list(shape)}; they must be uint8 [number, height, width, 3]."
            )
        rising = len(self.starts) == len(self.classes) + 1 and self.starts[0] == 0 and (np.diff(self.starts) > 0).all()
        if not rising or self.starts[-1] != len(self.images):
            raise AnyshotError(
                f"The classes of {self.name!r} do not cover its {len(self.images)} images, or one is empty; "
                f"starts must rise from 0 to the number of images."
            )
        _check_splits(self.name, self.splits, len(self.classes))
        images = self.images.view()
        images.flags.writeable = False
        object.__setattr__(self, "images", images)

    def __reduce__(self) -> tuple[Any, ...]:
        # A set that lies on disk travels to worker processes as its address, not as its pixels.
        if self.folder is not None:
            return ImageSet.open, (self.folder,)
        return ImageSet, (self.name, self.images, self.classes, self.starts, self.splits, self.notes)

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

    def of(self, c: int | str) -> NDArray[np.uint8]:
        """The images of one class (index or name) as a view, uint8 [n, height, width, 3]."""
        if isinstance(c, str):
            c = self.classes.index(c)
        return self.images[self.starts[c] : self.starts[c + 1]]

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, NDArray[np.uint8]],
        splits: Mapping[str, Sequence[str]],
        notes: Mapping[str, Any] | None = None,
    ) -> ImageSet:
        """Make a set in memory from {class name: uint8 [n, height, width, 3]} and {split: class names}."""
        if not arrays:
            raise AnyshotError(f"{name!r} has no classes; an image set needs at least one.")
        if len({array.shape[1:] for array in arrays.values()}) > 1:
            raise AnyshotError(f"The classes of {name!r} differ in image size; resize all images to one size first.")
        return cls(
            name,
            np.concatenate(list(arrays.values())),
            tuple(arrays),
            _starts([len(array) for array in arrays.values()]),
            _indices(name, tuple(arrays), splits),
            dict(notes or {}),
        )

    def save(self, folder: str | Path) -> ImageSet:
        """Write the set to a folder that does not exist yet, whole or not at all, and open it there."""
        counts = dict(zip(self.classes, map(int, self.counts), strict=True))
        splits = {split: [self.classes[c] for c in members] for split, members in self.splits.items()}
        with create(folder, self.name, counts, self.size, splits, self.notes) as arrays:
            for c, array in enumerate(arrays):
                array[:] = self.of(c)
        return ImageSet.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> ImageSet:
        """Open a saved set; the images stay on disk until they are looked at."""
        folder = Path(folder)
        about = _read_about(folder)
        try:
            images = np.load(folder / "images.npy", mmap_mode="r")
            return cls(
                about["name"],
                images,
                tuple(about["classes"]),
                np.array(about["starts"], np.int64),
                {split: tuple(members) for split, members in about["splits"].items()},
                about["notes"],
                folder,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AnyshotError) as error:
            raise AnyshotError(
                f"The image set in {folder} is damaged ({error}); delete the folder and make it again."
            ) from error

    def check(self) -> None:
        """Read every pixel of a saved set and compare with the checksum recorded when it was made."""
        if self.folder is None:
            return
        if _digest(self.images) != _read_about(self.folder)["sha256"]:
            raise AnyshotError(
                f"The pixels in {self.folder} are not the ones that were written; delete the folder and make it again."
            )


@contextmanager
def create(
    folder: str | Path,
    name: str,
    counts: Mapping[str, int],
    size: tuple[int, int],
    splits: Mapping[str, Sequence[str]],
    notes: Mapping[str, Any] | None = None,
) -> Iterator[list[NDArray[np.uint8]]]:
    """Yield one array to fill for each class, uint8 [count, height, width, 3].

    The arrays lie on disk; the folder appears, whole, when the block ends well, and not at all otherwise.
    """
    starts = _starts(list(counts.values()))
    members = _indices(name, tuple(counts), splits)
    _check_splits(name, members, len(counts))
    notes = dict(notes or {})
    with fresh_folder(Path(folder)) as temporary:
        images = np.lib.format.open_memmap(
            temporary / "images.npy", mode="w+", dtype=np.uint8, shape=(int(starts[-1]), *size, 3)
        )
        yield [images[a:b] for a, b in pairwise(starts)]
        images.flush()
        about = {
            "format": FORMAT,
            "name": name,
            "classes": list(counts),
            "starts": starts.tolist(),
            "splits": {split: list(indices) for split, indices in members.items()},
            "notes": notes,
            "sha256": _digest(images),
        }
        del images
        write_json(temporary / "set.json", about)


def split_by_seed(classes: Sequence[str], shares: Mapping[str, float], seed: int) -> dict[str, list[str]]:
    """Deal classes to splits in the given shares (the last takes the rest); the same seed, the same split.

    >>> split_by_seed("abcde", {"train": 0.6, "validation": 0.2, "test": 0.2}, seed=0)
    {'train': ['a', 'd', 'e'], 'validation': ['c'], 'test': ['b']}
    """
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    order = rng.permutation(len(classes))
    ends = np.rint(np.cumsum(list(shares.values())) * len(classes)).astype(int)
    ends[-1] = len(classes)
    dealt, begin = {}, 0
    for split, end in zip(shares, ends, strict=True):
        dealt[split] = [classes[c] for c in sorted(order[begin:end])]
        begin = end
    return {split: members for split, members in dealt.items() if members}


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _digest(images: NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()


def _indices(name: str, classes: tuple[str, ...], splits: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, ...]]:
    place = {label: c for c, label in enumerate(classes)}
    unknown = [label for members in splits.values() for label in members if label not in place]
    if unknown:
        raise AnyshotError(f"The splits of {name!r} name {unknown[0]!r}, which is not one of its {len(place)} classes.")
    return {split: tuple(place[label] for label in members) for split, members in splits.items()}


def _check_splits(name: str, splits: Mapping[str, Sequence[int]], classes: int) -> None:
    strange = [split for split in splits if split not in SPLITS]
    if strange:
        raise AnyshotError(f"{name!r} has a split {strange[0]!r}; splits are called {', '.join(SPLITS)}.")
    listed = [c for members in splits.values() for c in members]
    if len(set(listed)) != len(listed):
        raise AnyshotError(f"A class of {name!r} is in two splits; every class belongs to at most one.")
    if any(not 0 <= c < classes for c in listed):
        raise AnyshotError(f"The splits of {name!r} name classes beyond its {classes}.")


def _read_about(folder: Path) -> dict[str, Any]:
    if not (folder / "set.json").is_file():
        raise AnyshotError(f"{folder} holds no image set (there is no set.json in it).")
    about = read_json(folder / "set.json")
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise AnyshotError(
            f"{folder} was written in another format than {FORMAT}; delete the folder and make it again."
        )
    return about
