"""Open the image sets of a run, with the classes and splits that the run has recorded."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyshot.core.errors import DataError, NotPreparedError
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

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunImageSets:
    """The image sets of a run and what the run records of them."""

    images: tuple[ImageSet, ...]  #: to train on
    ood: tuple[ImageSet, ...]  #: for out-of-distribution validation only
    records: tuple[SetRecord, ...]  #: of both

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.images[0].size

    def describe(self) -> list[str]:
        """A sentence for each set: how many classes each split has."""
        uses = {"train": "to train on", "validation": "to validate on", "test": "to test on"}
        sentences = []
        for images in (*self.images, *self.ood):
            parts = [
                f"{len(images.splits[split])} {use}"
                for split, use in uses.items()
                if split in images.splits
            ]
            if images in self.images and "validation" not in images.splits:
                parts.append("none to validate on")
            sentences.append(f"{images.name} has classes: {', '.join(parts)}.")
        return sentences

    def with_names(self, settings: Settings) -> Settings:
        """The settings with the names of the sets that are used."""
        train = tuple(record.given for record in self.records if record.learned)
        ood = tuple(record.given for record in self.records if not record.learned)
        return replace(settings, images=train, ood=ood)


def open_image_sets(
    settings: Settings,
    recorded: Sequence[SetRecord] = (),
    images: Sequence[ImageSet] | None = None,
    ood: Sequence[ImageSet] | None = None,
) -> RunImageSets:
    """Open the sets that the settings name, or take those given instead.

    A run that continues (``recorded``) gets the classes and splits that it started with.
    """
    way = settings.task.way
    train_sources = settings.images if images is None else images
    ood_sources = settings.ood if ood is None else ood
    train_sets = [_open(source, recorded, True, training_shares(way)) for source in train_sources]
    ood_sets = [_open_ood(source, recorded, validation_shares(way)) for source in ood_sources]
    if not train_sets:
        raise DataError("There is no image set to train on; give at least one.")
    sets, records = zip(*train_sets, *ood_sets, strict=True)
    sizes = sorted({each.size for each in sets})
    if len(sizes) > 1:
        raise DataError(
            f"The image sets of a run have the sizes {sizes}; expected one size for all."
        )
    names = [each.name for each in sets]
    if len(set(names)) < len(names):  # the log identifies sets by their names
        raise DataError(
            f"The image sets of a run are called {', '.join(names)}; expected different names."
        )
    return RunImageSets(sets[: len(train_sets)], sets[len(train_sets) :], records)


def open_for_evaluation(
    source: str | Path | ImageSet, recorded: Sequence[SetRecord], size: tuple[int, int]
) -> tuple[ImageSet, list[str]]:
    """Open a set for tests of a run; the sets of the run are found by their names.

    See :func:`anyshot.runs.image_record.apply_record` for the result.
    """
    if not isinstance(source, ImageSet):
        location = _find_location(str(source), recorded)
        side = size[0] if size[0] == size[1] else None  # a folder of images becomes square
        source = open_images(location, size=side, split_policy=test_only)
    if source.size != size:
        raise DataError(
            f"The images of {source.name!r} are {source.size[0]}x{source.size[1]}, but the run "
            f"takes {size[0]}x{size[1]}; save an image set of that size (ImageSet.save)."
        )
    return apply_record(recorded, source)


def _open(
    source: str | ImageSet, recorded: Sequence[SetRecord], train: bool, split_policy: SplitPolicy
) -> tuple[ImageSet, SetRecord]:
    """Open a set; ``train`` is false for a set that is only validated on."""
    if isinstance(source, ImageSet):
        images = source
        given = source.name
        location = None if source.folder is None else str(source.folder.resolve())
    else:
        given = source
        if _find_record(source, recorded) is not None:
            split_policy = default_shares  # the record replaces the splits
        images = open_images(_find_location(source, recorded), split_policy=split_policy)
        is_builtin = source in (*EMBEDDED, *CATALOGUE)
        location = source if is_builtin else os.path.realpath(_expand(source))
    record = next((r for r in recorded if r.name == images.name), None)
    if record is None:
        return images, SetRecord.from_images(images, given, location, train)
    if change := record.difference(images):
        raise DataError(
            f"The image set {images.name!r} has changed since this run started: {change}. "
            "Restore it, or start a new run in another folder."
        )
    return replace(images, splits=record.splits_for(images)), record


def _open_ood(
    source: str | ImageSet, recorded: Sequence[SetRecord], split_policy: SplitPolicy
) -> tuple[ImageSet, SetRecord]:
    """Open a set for out-of-distribution validation, which a new run can do without."""
    try:
        return _open(source, recorded, False, split_policy)
    except NotPreparedError as error:
        if recorded:
            raise
        raise DataError(
            f"{error}, or train without out-of-distribution validation: --ood none "
            "(ood=() in Python)"
        ) from error


def _find_location(name: str, recorded: Sequence[SetRecord]) -> str:
    """Return where the run found the set of this name if it is still there, otherwise the name."""
    record = _find_record(name, recorded)
    exists = os.path.exists(_expand(name))
    if record is None or (exists and (record.place is None or not os.path.exists(record.place))):
        return name
    if record.place is None:
        raise DataError(
            f"The image set {name!r} was given to the run in Python and has no folder; save it "
            "with ImageSet.save and give that folder with --images."
        )
    if exists and record.place != name and not os.path.samefile(_expand(name), record.place):
        log.warning(
            "%s is the run's own image set in '%s', not the folder of this name here; write ./%s "
            "for that.",
            name, record.place, name,
        )  # fmt: skip
    return record.place


def _expand(name: str) -> str:
    return os.path.expanduser(name)


def _find_record(name: str, recorded: Sequence[SetRecord]) -> SetRecord | None:
    return next((record for record in recorded if name in (record.given, record.name)), None)
