"""Prepare a published data set: find, download, unpack and check its files, then convert them.

The prepared set appears in the cache folder completely or not at all.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

from anyshot.core.atomic_folders import temporary_folder
from anyshot.core.errors import AnyshotError, DataError, NotPreparedError
from anyshot.core.files import cache_folder
from anyshot.core.progress import progress
from anyshot.data.image_set import ImageSet
from anyshot.data.published.archives import SourceFiles, scan_source, unpack
from anyshot.data.published.dataset import ClassImages, PublishedDataset
from anyshot.data.published.download import fetch, md5_of
from anyshot.data.storage import ImageSetWriter, write_image_set

log = logging.getLogger("anyshot")


def prepared_folder(dataset: PublishedDataset) -> Path:
    """Return the folder of the prepared set, whether or not it exists."""
    return cache_folder() / "datasets" / dataset.name


def downloads_folder(dataset: PublishedDataset) -> Path:
    """Return the folder of downloaded official files."""
    return cache_folder() / "downloads" / dataset.name


def is_prepared(dataset: PublishedDataset) -> bool:
    """Return whether the data set is prepared on this machine."""
    return (prepared_folder(dataset) / "set.json").is_file()


def prepare(
    dataset: PublishedDataset, source: str | Path | None = None, *, again: bool = False
) -> ImageSet:
    """Prepare a data set and open it.

    `source` is an official archive, a folder with archives, or an unpacked folder; by default the
    official files are downloaded. A prepared set is kept unless `again` is true, and then it is
    replaced only when the new one is complete.
    """
    if is_prepared(dataset) and not again:
        return open_prepared(dataset)
    path = Path(os.path.expanduser(source)) if source is not None else _download(dataset)
    with temporary_folder(cache_folder() / "unpacking") as folder:
        classes, files = _read_source(dataset, path, folder)
        _write(dataset, path, classes, _compare_checksums(dataset, files))
    return open_prepared(dataset)


def open_prepared(dataset: PublishedDataset) -> ImageSet:
    """Open a prepared set; its notes say which part of the official images it has."""
    if not is_prepared(dataset):
        raise NotPreparedError(
            f"{dataset.title} is not prepared on this machine; run: anyshot data prepare "
            f"{dataset.name}"
        )
    images = ImageSet.open(prepared_folder(dataset))
    parts = dataset.missing_parts(images)
    return replace(images, notes={**images.notes, "part": parts}) if parts else images


def verify_prepared(dataset: PublishedDataset) -> ImageSet:
    """Compare pixels, classes and splits of a prepared set with the recorded ones, and open it."""
    images = open_prepared(dataset)
    images.check()
    expected = dataset.splits()
    for split, members in images.splits.items():
        if [images.classes[c] for c in members] != expected.get(split):
            raise DataError(
                f"The {split} classes in {prepared_folder(dataset)} are not those of the published "
                "split; prepare the set with --again."
            )
    return images


def _download(dataset: PublishedDataset) -> Path:
    """Download the official files that are missing and return their folder."""
    folder = downloads_folder(dataset)
    if not dataset.remotes and not (folder.is_dir() and any(folder.iterdir())):
        raise DataError(
            f"{dataset.title} cannot be downloaded automatically ({dataset.terms}). See "
            f"{dataset.homepage}, download {dataset.source_files}, and put them into {folder} "
            "or give their folder with --source."
        )
    for remote in dataset.remotes:
        fetch(remote, folder)
    return folder


def _read_source(
    dataset: PublishedDataset, path: Path, folder: Path
) -> tuple[ClassImages, list[Path]]:
    """Return the images of each class, and the official files that they come from.

    Files that are not packed are tried first, then archives, those with official names first.
    """
    source, archives = scan_source(path, dataset.patterns)
    official = {remote.file for remote in dataset.remotes}
    used = [file for file in source.files if file.name in official]
    if (classes := dataset.read(source, dataset.splits())) is not None:
        return classes, used
    errors: dict[Path, AnyshotError] = {}
    archives.sort(key=lambda archive: (archive.name not in official, archive))
    for number, archive in enumerate(archives):
        try:
            with progress(f"Unpacking {archive.name}", None) as advance:
                files = unpack(archive, dataset.patterns, folder / str(number), advance).files
        except AnyshotError as error:
            errors[archive] = error
            continue
        source = SourceFiles(source.files + files)
        if files:
            used = [*used, archive]
        if (classes := dataset.read(source, dataset.splits())) is not None:
            for ignored in errors.values():
                log.warning("%s The archive is ignored.", ignored)
            return classes, used
    for archive, reason in errors.items():  # others may have nothing to do with the data set
        if archive.name in official or len(archives) == 1:
            raise reason
    raise DataError(
        f"{path} does not contain {dataset.title}; expected {dataset.source_files}, or the "
        "unpacked folder."
        + (f" {len(errors)} of {len(archives)} archives cannot be read." if errors else "")
    )


def _compare_checksums(dataset: PublishedDataset, files: list[Path]) -> dict[str, str]:
    """Compare MD5 checksums with the published ones; a difference is a warning, not an error."""
    published = {remote.file: remote.md5 for remote in dataset.remotes if remote.md5}
    results: dict[str, str] = {}
    if not published:
        return results
    for path in files:
        md5 = md5_of(path)
        if md5 in published.values():
            results[path.name] = f"MD5 {md5}, as published"
            continue
        expected = published.get(path.name) or " or ".join(published.values())
        results[path.name] = f"MD5 {md5}, not the published {expected}"
        log.warning("%s is readable, but not the official file (%s).", path, results[path.name])
    return results


def _write(
    dataset: PublishedDataset, source: Path, classes: ClassImages, files: dict[str, str]
) -> None:
    """Write the image set, and check that no class is missing."""
    notes = {
        "title": dataset.title,
        "source": str(source),
        "terms": dataset.terms,
        "split": dataset.split_source(),
        "files": files,
    }
    size = (dataset.side, dataset.side)
    total = sum(map(len, dataset.splits().values()))
    folder = prepared_folder(dataset)
    with (
        progress(f"Preparing {dataset.name}", total) as advance,
        write_image_set(folder, dataset.name, size, notes=notes, kind=dataset.kind) as writer,
    ):
        for label, images in classes:
            if not len(images):
                raise DataError(f"{source} has no images of class {label!r} of {dataset.title}.")
            writer.add(label, images)
            advance()
        _assign_splits(dataset, source, writer)


def _assign_splits(dataset: PublishedDataset, source: Path, writer: ImageSetWriter) -> None:
    """Give the writer the splits that the source contains, and refuse incomplete ones."""
    splits = dataset.splits()
    present = {split: names for split, names in splits.items() if names[0] in writer.counts}
    absent = [s for s in splits if s not in present and s not in dataset.optional_splits]
    missing = [name for names in present.values() for name in names if name not in writer.counts]
    if absent or missing or not writer.counts:
        total = sum(map(len, splits.values()))
        raise DataError(
            f"{source} has only {len(writer.counts)} of the {total} classes of {dataset.title}."
        )
    writer.splits = present
