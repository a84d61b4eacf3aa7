"""The image sets of a run: opened for a new one, recognised and compared with the record for one that goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyshot.core.errors import AnyshotError, NotPreparedError
from anyshot.core.settings import Settings
from anyshot.data import CATALOGUE, EMBEDDED, ImageSet, open_images
from anyshot.data.class_splits import (
    SplitPolicy,
    default_shares,
    test_only,
    training_shares,
    validation_shares,
)
from anyshot.runs.image_record import SetRecord, apply_record


@dataclass(frozen=True)
class RunImageSets:
    """Image sets to learn from, those only validated on, and what a run records of each."""

    images: tuple[ImageSet, ...]
    ood: tuple[ImageSet, ...]
    records: tuple[SetRecord, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.images[0].size

    def describe(self) -> list[str]:
        """How many classes of each set there are for what."""
        words = {"train": "to learn from", "validation": "to validate on", "test": "to test on"}
        found = []
        for images in (*self.images, *self.ood):
            counts = {split: len(images.splits[split]) for split in words if split in images.splits}
            text = ", ".join(f"{count} {words[split]}" for split, count in counts.items())
            last = images in self.images and "validation" not in counts
            found.append(
                f"{images.name} has classes: {text}" + (", none to validate on." if last else ".")
            )
        return found

    def named(self, settings: Settings) -> Settings:
        """The settings with the names of the sets that are really used."""
        names = {
            learned: tuple(r.given for r in self.records if r.learned == learned)
            for learned in (True, False)
        }
        return replace(settings, images=names[True], ood=names[False])


def open_image_sets(
    settings: Settings,
    recorded: Sequence[SetRecord] = (),
    images: Sequence[ImageSet] | None = None,
    ood: Sequence[ImageSet] | None = None,
) -> RunImageSets:
    """The sets that the settings name, or those given instead; for a run with records, as they were when it began."""
    way = settings.task.way
    learned = [
        _open(i, recorded, True, training_shares(way))
        for i in (settings.images if images is None else images)
    ]
    others = [
        _open_ood(i, recorded, validation_shares(way))
        for i in (settings.ood if ood is None else ood)
    ]
    if not learned:
        raise AnyshotError("There is no image set to learn from; give at least one.")
    sets, records = zip(*learned, *others, strict=True)
    sizes, names = sorted({i.size for i in sets}), [i.name for i in sets]
    if len(sizes) > 1:
        raise AnyshotError(f"Image sets of one run need one image size, but these have {sizes}.")
    if len(set(names)) < len(names):  # the log and the choice of the best go by name
        raise AnyshotError(
            f"Image sets of one run need different names, but these are {', '.join(names)}."
        )
    return RunImageSets(sets[: len(learned)], sets[len(learned) :], records)


def open_for_evaluation(
    source: str | Path | ImageSet, recorded: Sequence[SetRecord], size: tuple[int, int]
) -> tuple[ImageSet, list[str]]:
    """A set for a run's tests (see :func:`anyshot.runs.image_record.as_seen_by`); the sets of the run go by their names."""
    if not isinstance(source, ImageSet):
        source = open_images(_place(str(source), recorded), size=size[0], split_policy=test_only)
    return apply_record(recorded, source)


def _open(
    source: str | ImageSet, recorded: Sequence[SetRecord], learned: bool, split_policy: SplitPolicy
) -> tuple[ImageSet, SetRecord]:
    if isinstance(source, ImageSet):
        images, given = source, source.name
        place = None if source.folder is None else str(source.folder.resolve())
    else:
        images, given = (
            open_images(
                _place(source, recorded),
                split_policy=default_shares if _known(source, recorded) else split_policy,
            ),
            source,
        )
        place = (
            given
            if given in (*EMBEDDED, *CATALOGUE)
            else os.path.realpath(os.path.expanduser(given))
        )
    record = next((r for r in recorded if r.name == images.name), None)
    if record is None:
        return images, SetRecord.of(images, given, place, learned)
    if change := record.difference(images):
        raise AnyshotError(
            f"The image set {images.name!r} has changed since this run began: {change}. Restore it, or start a new run "
            "in another folder."
        )
    return replace(images, splits=record.splits_for(images)), record


def _open_ood(
    source: str | ImageSet, recorded: Sequence[SetRecord], split_policy: SplitPolicy
) -> tuple[ImageSet, SetRecord]:
    """As any other; but where it cannot be had, a new run may go without it."""
    try:
        return _open(source, recorded, False, split_policy)
    except NotPreparedError as error:
        if recorded:
            raise
        raise AnyshotError(
            f"{error}, or go without what only validates: --ood none (ood=() in Python)"
        ) from error


def _place(name: str, recorded: Sequence[SetRecord]) -> str:
    """Where a name leads: to the set that the run recorded by it, if that is still there, otherwise to itself."""
    record = _known(name, recorded)
    here = os.path.exists(os.path.expanduser(name))
    if record is None or (here and (record.place is None or not os.path.exists(record.place))):
        return name
    if record.place is None:
        raise AnyshotError(
            f"The image set {name!r} was given to the run from Python and lies in no folder; save it there "
            "(ImageSet.save) and name the folder by --images."
        )
    return record.place


def _known(name: str, recorded: Sequence[SetRecord]) -> SetRecord | None:
    return next((record for record in recorded if name in (record.given, record.name)), None)
