"""From official files to a memory-mapped set: found, unpacked, checked, converted, whole or not at all."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from anyshot.core.atomic_folders import temporary_folder
from anyshot.core.errors import AnyshotError, NotPreparedError
from anyshot.core.files import cache_folder
from anyshot.core.progress import progress
from anyshot.data.image_set import ImageSet
from anyshot.data.published.archives import SourceFiles, scan_source, unpack
from anyshot.data.published.dataset import ClassImages, PublishedDataset
from anyshot.data.published.download import fetch, md5_of
from anyshot.data.storage import write_image_set

log = logging.getLogger("anyshot")


def prepared_folder(entry: PublishedDataset) -> Path:
    """The folder of the prepared set, whether or not it is there."""
    return cache_folder() / "datasets" / entry.name


def downloads_folder(entry: PublishedDataset) -> Path:
    """The folder for the official files of a set."""
    return cache_folder() / "downloads" / entry.name


def is_prepared(entry: PublishedDataset) -> bool:
    """Whether the set was prepared on this machine."""
    return (prepared_folder(entry) / "set.json").is_file()


def prepare(
    entry: PublishedDataset, source: str | Path | None = None, *, again: bool = False
) -> ImageSet:
    """Prepare a set from `source` (archive, folder of archives, or unpacked folder), or from the official address.

    A set that is ready is left as it is, unless `again` is true; the old one stays until the new one is whole.
    """
    if is_prepared(entry) and not again:
        return ImageSet.open(prepared_folder(entry))
    origin = Path(os.path.expanduser(source)) if source is not None else _download(entry)
    with temporary_folder(cache_folder() / "unpacking") as folder:
        classes, used = _read_source(entry, origin, folder)
        _store(entry, origin, classes, _compare_checksums(entry, used))
    return ImageSet.open(prepared_folder(entry))


def open_prepared(entry: PublishedDataset) -> ImageSet:
    """The set, if it was prepared on this machine."""
    if not is_prepared(entry):
        raise NotPreparedError(
            f"{entry.title} is not prepared on this machine; run: anyshot data prepare {entry.name}"
        )
    return ImageSet.open(prepared_folder(entry))


def verify_prepared(entry: PublishedDataset) -> ImageSet:
    """The prepared set, after every pixel, its classes and its splits were verified."""
    images = open_prepared(entry)
    images.check()
    wanted = entry.splits()
    found = {
        split: [images.classes[c] for c in members] for split, members in images.splits.items()
    }
    if any(members != wanted.get(split) for split, members in found.items()):
        raise AnyshotError(
            f"The splits of {prepared_folder(entry)} are not the recorded ones; prepare it with --again."
        )
    return images


def _download(entry: PublishedDataset) -> Path:
    """The folder of official files, downloaded where they are missing."""
    folder = downloads_folder(entry)
    if not entry.remotes and not (folder.is_dir() and any(folder.iterdir())):
        raise AnyshotError(
            f"{entry.title} has no address from which anyone may download it ({entry.terms}): see {entry.homepage}, fetch "
            f"{entry.source_files}, and put them into {folder} or name their folder with --source."
        )
    for remote in entry.remotes:
        fetch(remote, folder)
    return folder


def _read_source(
    entry: PublishedDataset, source: Path, folder: Path
) -> tuple[ClassImages, list[Path]]:
    """The set's images, from files that lie open, or else from the archives, official names first; and these files."""
    tree, archives = scan_source(source, entry.patterns)
    official = {remote.file for remote in entry.remotes}
    used = [path for path in tree.files if path.name in official]
    if (classes := entry.read(tree, entry.splits())) is not None:
        return classes, used
    refusals: list[AnyshotError] = []
    for number, archive in enumerate(
        sorted(archives, key=lambda path: (path.name not in official, path))
    ):
        try:
            with progress(f"Unpacking {archive.name}", None) as advance:
                taken = unpack(archive, entry.patterns, folder / str(number), advance).files
        except AnyshotError as error:
            refusals.append(error)
            continue
        tree, used = SourceFiles(tree.files + taken), [*used, *([archive] if taken else [])]
        if (classes := entry.read(tree, entry.splits())) is not None:
            for refusal in refusals:
                log.warning("%s It is passed over.", refusal)
            return classes, used
    if refusals:
        raise refusals[0]
    raise AnyshotError(
        f"{source} does not hold {entry.title}; expected {entry.source_files}, or the folder unpacked from it."
    )


def _compare_checksums(entry: PublishedDataset, used: list[Path]) -> dict[str, str]:
    """{file: its MD5 sum beside the published one, where there is one}; a difference is no refusal, but is said."""
    published = {remote.file: remote.md5 for remote in entry.remotes if remote.md5}
    compared = {}
    for path in used if published else []:
        found = md5_of(path)
        if found in published.values():
            compared[path.name] = f"MD5 {found}, as published"
        else:
            wanted = published.get(path.name) or " or ".join(published.values())
            compared[path.name] = f"MD5 {found}, not the published {wanted}"
            log.warning(
                "%s can be read, but is not the official file (%s).", path, compared[path.name]
            )
    return compared


def _store(
    entry: PublishedDataset, source: Path, classes: ClassImages, files: dict[str, str]
) -> None:
    splits = entry.splits()
    names = [name for members in splits.values() for name in members]
    about = {
        "title": entry.title,
        "source": str(source),
        "terms": entry.terms,
        "split": entry.split_source(),
    }
    notes = {**about, "files": files}
    with (
        progress(f"Preparing {entry.name}", len(names)) as advance,
        write_image_set(
            prepared_folder(entry),
            entry.name,
            (entry.side, entry.side),
            notes=notes,
            kind=entry.kind,
        ) as writer,
    ):
        for label, images in classes:
            if not len(images):
                raise AnyshotError(
                    f"{source} holds no images of the class {label!r} of {entry.title}."
                )
            writer.add(label, images)
            advance()
        writer.splits = {
            split: members for split, members in splits.items() if members[0] in writer.counts
        }
        lacking = [
            split
            for split in splits
            if split not in writer.splits and split not in entry.optional_splits
        ]
        missing = [
            name
            for members in writer.splits.values()
            for name in members
            if name not in writer.counts
        ]
        if lacking or missing or not writer.counts:
            raise AnyshotError(
                f"{source} holds only {len(writer.counts)} of the {len(names)} classes of {entry.title}."
            )
