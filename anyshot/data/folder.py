"""Image sets from a folder of class folders: `ROOT/CLASS/*` or `ROOT/{train,val,test}/CLASS/*`.

Files that cannot be decoded are skipped, counted and named. The converted set is kept in the cache
folder under a fingerprint of all paths, sizes and modification times. Opening the same folder again
takes no time, and a changed folder is converted again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from anyshot.core.errors import DataError
from anyshot.core.files import cache_folder, os_errors_as_messages
from anyshot.core.progress import progress
from anyshot.core.text import readable
from anyshot.data.class_splits import SplitPolicy, default_shares, split_by_seed
from anyshot.data.decode import check_side, decode_all
from anyshot.data.image_set import ImageSet
from anyshot.data.storage import SPLIT_NAMES, split_indices, write_image_set
from anyshot.data.walk import list_visible, reason_unusable, walk_files

log = logging.getLogger("anyshot")

SIDE = 32
MIN_CLASS_SIZE = 2  # one support image and one query image
VERSION = 4  # part of the fingerprint: increase it when pixels or notes change
# Names of parts of a data set: folders with these names are hardly classes.
PART_NAMES = {*SPLIT_NAMES, "training", "testing", "support", "query", "eval", "evaluation"}


@dataclass
class FolderListing:
    """Classes and files of a folder, before any image is decoded."""

    files: dict[str, list[Path]] = field(default_factory=dict)  # class -> files, sorted by name
    splits: dict[str, list[str]] = field(default_factory=dict)  # empty without split folders
    skipped: list[tuple[str, str]] = field(default_factory=list)  # path, reason


def open_folder(
    root: str | Path,
    *,
    size: int | None = None,
    seed: int = 0,
    split_policy: SplitPolicy = default_shares,
) -> ImageSet:
    """Open a folder of class folders as an image set of size x size pixels.

    Without split folders, `seed` and `split_policy` assign the classes to train, validation and
    test.
    """
    root = Path(os.path.expanduser(root))
    side = SIDE if size is None else size
    check_side(side)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; give a folder that has one folder per class.")
    listing = list_folder(root)
    if not listing.files:
        raise DataError(
            f"{root} has no class folders with files in them; expected {root}/CLASS/*.jpg or "
            f"{root}/{{train,val,test}}/CLASS/*.jpg."
        )
    with os_errors_as_messages("read", root):
        fingerprint = _fingerprint(root, listing, side)
    folder = cache_folder() / "folders" / f"{_set_name(root)[:40]}-{side}-{fingerprint}"
    if not (folder / "set.json").is_file():
        _convert(root, listing, folder, side)
    images = ImageSet.open(folder)
    if not listing.splits:
        shares = split_policy(images.name, len(images.classes))
        splits = split_by_seed(images.classes, shares, seed)
        images = replace(images, splits=split_indices(images.name, images.classes, splits))
    if images.skipped:
        log.warning("%s: %s.", readable(root), _describe_skipped(images.skipped))
    return images


def list_folder(root: Path) -> FolderListing:
    """Find the classes of a folder and their files; hidden files and folders are ignored."""
    listing = FolderListing()
    entries = list_visible(root)
    folders = [path for path in entries if os.path.isdir(path)]
    _skip_files(root, entries, listing)
    if folders and all(path.name.lower() in SPLIT_NAMES for path in folders):
        for folder in folders:
            members = listing.splits.setdefault(SPLIT_NAMES[folder.name.lower()], [])
            entries = list_visible(folder)
            _skip_files(root, entries, listing)
            for path in entries:
                if os.path.isdir(path):
                    _add_class(root, path, listing)
                    members.append(readable(path.name))
    else:
        for path in folders:
            _add_class(root, path, listing)
        _check_nesting(root, listing)
    return listing


def _skip_files(root: Path, entries: list[Path], listing: FolderListing) -> None:
    """Record the files that are not in a class folder."""
    for path in entries:
        if not os.path.isdir(path):
            reason = reason_unusable(path) or "not in a class folder"
            listing.skipped.append((readable(path.relative_to(root)), reason))


def _add_class(root: Path, folder: Path, listing: FolderListing) -> None:
    label = readable(folder.name)
    if label in listing.files:
        raise DataError(
            f"Class {label!r} is in two split folders of {root}. Splits are by class: each "
            "class folder belongs to one of train, val and test."
        )
    files = list(walk_files(folder, root, listing.skipped))
    if files:
        listing.files[label] = files
    else:
        listing.skipped.append((readable(folder.relative_to(root)), "a class folder without files"))


def _check_nesting(root: Path, listing: FolderListing) -> None:
    """Notice a folder that is one level too high: its class folders contain folders, not images."""
    inner: dict[str, list[str]] = {}
    for label, paths in listing.files.items():
        parts = [path.relative_to(root).parts for path in paths]
        inner[label] = sorted({readable(p[1]) if len(p) > 2 else "" for p in parts})
    if not inner or any("" in names or len(names) < 2 for names in inner.values()):
        return  # a class folder has images of its own, or a single folder of images
    example = ", ".join(f"{label}/{names[0]}" for label, names in list(inner.items())[:2])
    outer = next(iter(inner))
    if any(label.lower() in PART_NAMES for label in inner):
        raise DataError(
            f"The class folders of {readable(root)} ({', '.join(list(inner)[:4])}) contain folders "
            f"instead of images ({example}). If those are the classes, give "
            f"{readable(root / outer)}."
        )
    log.warning(
        "%s: every class folder contains folders instead of images (%s); the outer folders are "
        "used as classes. If the inner ones are the classes, give one of the outer folders.",
        readable(root),
        example,
    )


def _set_name(root: Path) -> str:
    return readable(root.resolve().name) or "folder"


def _fingerprint(root: Path, listing: FolderListing, side: int) -> str:
    """Return a hash of all paths, file sizes and modification times."""
    facts = [
        (label, str(path.relative_to(root)), path.stat().st_size, path.stat().st_mtime_ns)
        for label, paths in listing.files.items()
        for path in paths
    ]
    text = json.dumps([VERSION, str(root.resolve()), side, listing.splits, listing.skipped, facts])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _convert(root: Path, listing: FolderListing, folder: Path, side: int) -> None:
    """Decode all files and write the image set."""
    files = [path for paths in listing.files.values() for path in paths]
    results = decode_all(files, side)
    skipped = listing.skipped
    with (
        progress(f"Reading {_set_name(root)}", len(files)) as advance,
        write_image_set(folder, _set_name(root), (side, side)) as writer,
    ):
        for label, paths in listing.files.items():
            images = []
            for path in paths:
                pixels = next(results)
                if isinstance(pixels, str):
                    skipped.append((readable(path.relative_to(root)), pixels))
                else:
                    images.append(pixels)
                advance()
            if len(images) >= MIN_CLASS_SIZE:
                writer.add(label, np.stack(images))
            else:
                reason = f"a class of {len(images)} usable images; it needs {MIN_CLASS_SIZE}"
                skipped.append((label, reason))
        if not writer.counts:
            raise DataError(
                f"No class of {root} has {MIN_CLASS_SIZE} usable images; "
                f"{_describe_skipped(skipped)}."
            )
        for split, members in listing.splits.items():
            usable = [label for label in members if label in writer.counts]
            if usable:
                writer.splits = {**writer.splits, split: usable}
        writer.notes = {"source": str(root.resolve()), "skipped": skipped}


def _describe_skipped(skipped: list[tuple[str, str]]) -> str:
    """Return "skipped 3 files or folders: a.txt (not an image), b.jpg (too small) and 1 more"."""
    examples = ", ".join(f"{path} ({reason})" for path, reason in skipped[:5])
    text = f"skipped {len(skipped)} files or folders: {examples}"
    if len(skipped) <= 5:
        return text
    kinds = Counter(reason.split(" (")[0] for _, reason in skipped)
    counts = "; ".join(f"{count} {reason}" for reason, count in kinds.most_common())
    return f"{text} and {len(skipped) - 5} more [{counts}]"
