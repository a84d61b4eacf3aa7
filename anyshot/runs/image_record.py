"""What a run records of an image set: its classes, splits and checksums.

Classes stay in the split that they had when the run started, whatever happens to their folder.
Classes added later are test classes. A class of any set with the images of a training class is
recognised by its checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anyshot.data.image_set import ImageSet
from anyshot.data.storage import SPLITS

CHECKED_IMAGES = 16  #: images of a class that its checksum reads, so that it takes no time


@dataclass(frozen=True)
class SetRecord:
    """An image set as it was when a run started. The fields are keys of ``run.json``."""

    given: str  #: name or path in the settings
    place: str | None  #: where it can be opened again; None for a set that was only in memory
    learned: bool  #: whether the run was trained on it, not only validated
    name: str
    splits: dict[str, tuple[str, ...]]  #: split -> class names
    counts: dict[str, int]  #: class name -> number of images
    sums: dict[str, str]  #: class name -> checksum of some of its images
    checksum: str  #: of the whole set

    @classmethod
    def from_images(
        cls, images: ImageSet, given: str, place: str | None, learned: bool = True
    ) -> SetRecord:
        """Record a set."""
        splits = {
            split: tuple(images.classes[c] for c in members)
            for split, members in images.splits.items()
        }
        counts = dict(zip(images.classes, images.counts.tolist(), strict=True))
        sums = {label: class_checksum(images, c) for c, label in enumerate(images.classes)}
        return cls(given, place, learned, images.name, splits, counts, sums, images.checksum)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SetRecord:
        """Read a record from plain values.

        Other values raise KeyError, TypeError, ValueError or AttributeError.
        """
        record = cls(
            **{
                **values,
                "splits": {split: tuple(members) for split, members in values["splits"].items()},
            }
        )
        texts = (record.given, record.name, record.checksum, *record.sums.values())
        names = {label for members in record.splits.values() for label in members}
        if not all(isinstance(text, str) for text in texts) or not isinstance(record.learned, bool):
            raise TypeError("the record of an image set has a value of another type")
        if not names <= record.counts.keys() or record.counts.keys() != record.sums.keys():
            raise ValueError("the record of an image set lists classes that it does not describe")
        if not set(record.splits) <= set(SPLITS) or not all(
            isinstance(n, int) for n in record.counts.values()
        ):
            raise ValueError("the record of an image set has an unknown split or a wrong number")
        return record

    def splits_for(self, images: ImageSet) -> dict[str, tuple[int, ...]]:
        """The recorded splits as class indices of ``images``; other classes are test classes."""
        index = {label: c for c, label in enumerate(images.classes)}
        splits = {
            split: tuple(index[label] for label in members if label in index)
            for split, members in self.splits.items()
        }
        new = tuple(c for label, c in index.items() if label not in self.counts)
        splits["test"] = (*splits.get("test", ()), *new)
        return {split: members for split, members in splits.items() if members}

    def difference(self, images: ImageSet) -> str:
        """Describe what has changed in training and validation classes; "" if nothing has."""
        if images.checksum == self.checksum:
            return ""
        counts = dict(zip(images.classes, images.counts.tolist(), strict=True))
        for label in (
            label for split in ("train", "validation") for label in self.splits.get(split, ())
        ):
            if label not in counts:
                return f"its class {label!r} is missing"
            if counts[label] != self.counts[label]:
                return f"its class {label!r} has {counts[label]} images, not {self.counts[label]}"
            if class_checksum(images, images.classes.index(label)) != self.sums[label]:
                return f"the images of its class {label!r} are different"
        return "some of its images are different" if counts == self.counts else ""


def class_checksum(images: ImageSet, c: int) -> str:
    """A checksum of a class: its size and up to 16 of its images, evenly spread."""
    members = images.images_of(c)
    chosen = members[
        np.linspace(0, len(members) - 1, min(CHECKED_IMAGES, len(members))).round().astype(int)
    ]
    return hashlib.sha256(f"{members.shape}".encode() + chosen.tobytes()).hexdigest()[:16]


def apply_record(records: Sequence[SetRecord], images: ImageSet) -> tuple[ImageSet, list[str]]:
    """Give a set the splits that tests of a run must use.

    Returns
    -------
    ImageSet
        The set with the recorded splits, if the run has a record of it.
    list of str
        Other classes with the images of a training class; they are moved to the train split.
    """
    record = next((record for record in records if record.name == images.name), None)
    splits = images.splits if record is None else record.splits_for(images)
    learned = {r.sums[label] for r in records if r.learned for label in r.splits.get("train", ())}
    recorded = {} if record is None else record.sums
    sums = {
        c: class_checksum(images, c)
        for c in range(len(images.classes))
        if c not in splits.get("train", ())
    }
    # if the record has this checksum, two classes had the same images from the start
    moved = [c for c, s in sums.items() if s in learned and recorded.get(images.classes[c]) != s]
    if moved:
        splits = {
            split: tuple(c for c in members if c not in moved) for split, members in splits.items()
        }
        splits["train"] = (*splits.get("train", ()), *moved)
    splits = {split: members for split, members in splits.items() if members}
    return replace(images, splits=splits), [images.classes[c] for c in moved]
