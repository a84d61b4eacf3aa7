"""What a run remembers of an image set: which classes it learned from, and enough to notice that the set has changed.

Classes stay in the split they had when the run began, whatever becomes of the folder they came from; those that came
since are new to the run. A class of any set whose images are those of a class learned from is recognised by its sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anyshot.data.image_set import ImageSet
from anyshot.data.storage import SPLITS

SUMMED = 16  #: images of a class that its sum reads: sums of 100 classes take milliseconds, whatever their size


@dataclass(frozen=True)
class SetRecord:
    """An image set as it was when a run began."""

    given: str  #: what the settings call it: a name or a path
    place: str | None  #: where it can be opened again; None for one that only ever was in memory
    learned: bool  #: trained on, not only validated on
    name: str
    splits: dict[str, tuple[str, ...]]  #: class names
    counts: dict[str, int]  #: images of each class
    sums: dict[str, str]  #: of some images of each class
    checksum: str  #: of everything

    @classmethod
    def of(cls, images: ImageSet, given: str, place: str | None, learned: bool = True) -> SetRecord:
        """The record of a set."""
        splits = {
            split: tuple(images.classes[c] for c in members)
            for split, members in images.splits.items()
        }
        counts = dict(zip(images.classes, images.counts.tolist(), strict=True))
        sums = {label: class_checksum(images, c) for c, label in enumerate(images.classes)}
        return cls(given, place, learned, images.name, splits, counts, sums, images.checksum)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SetRecord:
        """The record that JSON holds; anything else raises KeyError, TypeError, ValueError or AttributeError."""
        record = cls(
            **{
                **values,
                "splits": {split: tuple(members) for split, members in values["splits"].items()},
            }
        )
        texts = (record.given, record.name, record.checksum, *record.sums.values())
        names = {label for members in record.splits.values() for label in members}
        if not all(isinstance(text, str) for text in texts) or not isinstance(record.learned, bool):
            raise TypeError("an image set's record has a value of another type")
        if not names <= record.counts.keys() or record.counts.keys() != record.sums.keys():
            raise ValueError("an image set's record lists classes that it does not describe")
        if not set(record.splits) <= set(SPLITS) or not all(
            isinstance(n, int) for n in record.counts.values()
        ):
            raise ValueError("an image set's record has a split or number that cannot be")
        return record

    def splits_for(self, images: ImageSet) -> dict[str, tuple[int, ...]]:
        """The recorded splits as indices into `images`; classes that are not recorded belong to the test split."""
        place = {label: c for c, label in enumerate(images.classes)}
        splits = {
            split: tuple(place[label] for label in members if label in place)
            for split, members in self.splits.items()
        }
        new = tuple(c for label, c in place.items() if label not in self.counts)
        splits["test"] = (*splits.get("test", ()), *new)
        return {split: members for split, members in splits.items() if members}

    def difference(self, images: ImageSet) -> str:
        """What of the classes trained and validated on is other than recorded, in a few words, or an empty string."""
        if images.checksum == self.checksum:
            return ""
        counts = dict(zip(images.classes, images.counts.tolist(), strict=True))
        for label in (
            label for split in ("train", "validation") for label in self.splits.get(split, ())
        ):
            if label not in counts:
                return f"its class {label!r} is gone"
            if counts[label] != self.counts[label]:
                return f"its class {label!r} has {counts[label]} images, not {self.counts[label]}"
            if class_checksum(images, images.classes.index(label)) != self.sums[label]:
                return f"the images of its class {label!r} are others"
        return "some of its images are others" if counts == self.counts else ""


def class_checksum(images: ImageSet, c: int) -> str:
    """A checksum of a class: its size and up to 16 of its images, evenly spread."""
    members = images.images_of(c)
    chosen = members[
        np.linspace(0, len(members) - 1, min(SUMMED, len(members))).round().astype(int)
    ]
    return hashlib.sha256(f"{members.shape}".encode() + chosen.tobytes()).hexdigest()[:16]


def apply_record(records: Sequence[SetRecord], images: ImageSet) -> tuple[ImageSet, list[str]]:
    """The set with the splits that a run with these records must use, and the classes that were put among the training
    classes because the run has learned from their images, though neither the set nor the record says so."""
    record = next((record for record in records if record.name == images.name), None)
    splits = images.splits if record is None else record.splits_for(images)
    learned = {r.sums[label] for r in records if r.learned for label in r.splits.get("train", ())}
    recorded = {} if record is None else record.sums
    sums = {
        c: class_checksum(images, c)
        for c in range(len(images.classes))
        if c not in splits.get("train", ())
    }
    # where the record has the same sum, two of its classes looked alike from the first
    moved = [c for c, s in sums.items() if s in learned and recorded.get(images.classes[c]) != s]
    if moved:
        splits = {
            split: tuple(c for c in members if c not in moved) for split, members in splits.items()
        }
        splits["train"] = (*splits.get("train", ()), *moved)
    return replace(images, splits={s: m for s, m in splits.items() if m}), [
        images.classes[c] for c in moved
    ]
