"""A person's own pictures: `root/class/*` or `root/{train,val,test}/class/*`, of any size, mode and rotation.

Files that give no picture are counted, named and skipped; nothing in a folder can crash or stall the reading. The
converted set is kept in the cache folder under a key made of every path, size and time of change, so opening the same
folder again is instant and a changed folder is read anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from anyshot.core.errors import AnyshotError
from anyshot.core.files import cache_folder, os_errors_as_messages
from anyshot.core.progress import progress
from anyshot.core.text import readable
from anyshot.data.class_splits import SplitPolicy, default_shares, split_by_seed
from anyshot.data.decode import decode_all
from anyshot.data.image_set import ImageSet
from anyshot.data.storage import SPLIT_NAMES, write_image_set

log = logging.getLogger("anyshot")

SIDE = 32
SMALLEST_CLASS = 2  # one image to learn from, one to be asked about
VERSION = 3  # raise it with any change that moves a pixel or records more


@dataclass
class FolderListing:
    """What lies in a folder before any picture is opened."""

    files: dict[str, list[Path]] = field(
        default_factory=dict
    )  # class -> its files, both in the order of their names
    splits: dict[str, list[str]] = field(
        default_factory=dict
    )  # empty when the folder has no split folders
    skipped: list[tuple[str, str]] = field(default_factory=list)  # path, reason


def open_folder(
    root: str | Path,
    *,
    size: int | None = None,
    seed: int = 0,
    split_policy: SplitPolicy = default_shares,
) -> ImageSet:
    """Open a folder of class folders as an `ImageSet` of size x size pictures.

    `seed` deals the classes to train, validation and test, in the shares that `deal` names, when the folder has no such
    folders itself.
    """
    root, side = Path(os.path.expanduser(root)), size or SIDE
    if not root.is_dir():
        raise AnyshotError(
            f"{root} is not a folder; give a folder that holds one folder of images for each class."
        )
    listing = list_folder(root)
    if not listing.files:
        raise AnyshotError(
            f"{root} holds no class folders with files in them; expected {root}/CLASS/*.jpg "
            f"or {root}/{{train,val,test}}/CLASS/*.jpg."
        )
    with os_errors_as_messages("read", root):
        key = _fingerprint(root, listing, side)
    folder = cache_folder() / "folders" / f"{_set_name(root)[:40]}-{side}-{key}"
    if not (folder / "set.json").is_file():
        _convert(root, listing, folder, side)
    images = ImageSet.open(folder)
    if not listing.splits:
        dealt = split_by_seed(images.classes, split_policy(images.name, len(images.classes)), seed)
        place = {label: c for c, label in enumerate(images.classes)}
        images = replace(
            images,
            splits={split: tuple(place[c] for c in members) for split, members in dealt.items()},
        )
    _warn_skipped(root, images)
    return images


def list_folder(root: Path) -> FolderListing:
    """Find classes and their files; hidden ones are passed over."""
    listing = FolderListing()
    inside = _list_visible(root)
    folders = [path for path in inside if os.path.isdir(path)]
    for path in inside:
        if not os.path.isdir(path):
            listing.skipped.append(
                (readable(path.name), _reason_unusable(path) or "lies outside any class folder")
            )
    if folders and all(path.name.lower() in SPLIT_NAMES for path in folders):
        for folder in folders:
            members = listing.splits.setdefault(SPLIT_NAMES[folder.name.lower()], [])
            for path in _list_visible(folder):
                if os.path.isdir(path):
                    _add_class(root, path, listing)
                    members.append(readable(path.name))
                else:
                    listing.skipped.append(
                        (readable(path.relative_to(root)), "lies outside any class folder")
                    )
    else:
        for path in folders:
            _add_class(root, path, listing)
    return listing


def _add_class(root: Path, folder: Path, listing: FolderListing) -> None:
    label = readable(folder.name)
    if label in listing.files:
        raise AnyshotError(
            f"Class {label!r} lies in two split folders of {root}; splits are by class, so each class folder "
            f"belongs to exactly one of train, val and test."
        )
    listing.files[label] = list(_walk(root, folder, listing.skipped))


def _walk(root: Path, folder: Path, skipped: list[tuple[str, str]]) -> Iterator[Path]:
    """Files at any depth, in the order of their names; a link back to a folder seen before is not entered again."""
    above = Path(os.path.realpath(root))
    seen = {str(above), *map(str, above.parents)}
    waiting = [folder]
    while waiting:
        below = waiting.pop()
        real = os.path.realpath(below)
        if real in seen:
            skipped.append(
                (readable(below.relative_to(root)), "a link to a folder that was already read")
            )
            continue
        seen.add(real)
        for path in _list_visible(below):
            if os.path.isdir(path):
                waiting.append(path)
            elif reason := _reason_unusable(path):
                skipped.append((readable(path.relative_to(root)), reason))
            else:
                yield path


def _list_visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise AnyshotError(
            f"{folder} cannot be read ({error.strerror}); check its permissions."
        ) from error


def _set_name(root: Path) -> str:
    return readable(root.resolve().name) or "folder"


def _reason_unusable(path: Path) -> str:
    """Why a path is no regular file, or an empty string."""
    try:
        return (
            "" if path.is_file() else "a broken link" if path.is_symlink() else "not a regular file"
        )
    except OSError as error:  # a link that points to itself
        return f"cannot be read ({error.strerror})"


def _fingerprint(root: Path, listing: FolderListing, side: int) -> str:
    """A fingerprint of the folder's content as the file system tells it."""
    facts = [
        (label, str(path.relative_to(root)), path.stat().st_size, path.stat().st_mtime_ns)
        for label, paths in listing.files.items()
        for path in paths
    ]
    text = json.dumps([VERSION, str(root.resolve()), side, listing.splits, listing.skipped, facts])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _convert(root: Path, listing: FolderListing, folder: Path, side: int) -> None:
    files = [path for paths in listing.files.values() for path in paths]
    pictures = decode_all(files, side)
    with (
        progress(f"Reading {_set_name(root)}", len(files)) as advance,
        write_image_set(folder, _set_name(root), (side, side)) as writer,
    ):
        for label, paths in listing.files.items():
            good = []
            for path in paths:
                pixels = next(pictures)
                if isinstance(pixels, str):
                    listing.skipped.append((readable(path.relative_to(root)), pixels))
                else:
                    good.append(pixels)
                advance()
            if len(good) >= SMALLEST_CLASS:
                writer.add(label, np.stack(good))
            else:
                reason = (
                    f"the class has {len(good)} usable images, at least {SMALLEST_CLASS} are needed"
                )
                listing.skipped.append((label, reason))
        if not writer.counts:
            raise AnyshotError(
                f"No class of {root} has {SMALLEST_CLASS} usable images; {_describe_skipped(listing.skipped)}."
            )
        kept = {
            split: [c for c in members if c in writer.counts]
            for split, members in listing.splits.items()
        }
        writer.splits = {split: members for split, members in kept.items() if members}
        writer.notes = {"source": str(root.resolve()), "skipped": listing.skipped}


def _warn_skipped(root: Path, images: ImageSet) -> None:
    if images.skipped:
        log.warning("%s: %s.", readable(root), _describe_skipped(images.skipped))


def _describe_skipped(skipped: list[tuple[str, str]]) -> str:
    """ "skipped 3 files or folders: a.txt (not an image), b.jpg (too small (1x1)) and 1 more"."""
    named = ", ".join(f"{path} ({reason})" for path, reason in skipped[:5])
    more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    kinds = Counter(reason.split(" (")[0] for _, reason in skipped)
    summary = (
        "; ".join(f"{count} {reason}" for reason, count in kinds.most_common()) if more else ""
    )
    return f"skipped {len(skipped)} of the files and folders: {named}{more}" + (
        f" [{summary}]" if summary else ""
    )
