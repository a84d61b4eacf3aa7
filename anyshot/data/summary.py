"""Facts about image sets as plain values, for tables and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyshot.data.embedded import glyphs
from anyshot.data.embedded.digits import open_digits
from anyshot.data.image_set import ImageSet
from anyshot.data.published import CATALOGUE, PublishedDataset, is_prepared, prepared_folder


def describe_all() -> list[dict[str, Any]]:
    """Describe every embedded and published set.

    "bytes" is the size on this disk, "
    ""download" the size of the official files; None if they must be
    requested from their owners.
    """
    return [_describe_glyphs(), _describe_digits(), *map(_describe_published, CATALOGUE.values())]


def describe_image_set(images: ImageSet) -> dict[str, Any]:
    """Describe an open image set."""
    return {
        "name": images.name,
        "images": len(images),
        "classes": len(images.classes),
        "splits": {split: len(members) for split, members in images.splits.items()},
        "size": list(images.size),
        "images_per_class": [int(images.counts.min()), int(images.counts.max())],
        "kind": images.kind,
        "folder": None if images.folder is None else str(images.folder),
        "files": images.notes.get("files", {}),
        "part": images.notes.get("part", {}),
    }


def _describe_glyphs() -> dict[str, Any]:
    folder = glyphs.glyphs_folder()
    splits = {split: len(members) for split, members in glyphs.glyph_splits().items()}
    return {
        "name": "glyphs",
        "title": "characters of many scripts",
        "splits": splits,
        "images": glyphs.COUNT * sum(splits.values()),
        "side": glyphs.SIDE,
        "terms": "free fonts: DejaVu, STIX, Computer Modern",
        "source": "embedded",
        "checksum": "not needed",
        "ready": (folder / "set.json").is_file(),
        "bytes": _disk_usage(folder),
        "download": 0,
    }


def _describe_digits() -> dict[str, Any]:
    digits = open_digits()
    return {
        "name": "digits",
        "title": "handwritten digits",
        "splits": {split: len(members) for split, members in digits.splits.items()},
        "images": len(digits),
        "side": digits.size[0],
        "terms": "CC BY 4.0",
        "source": "embedded",
        "checksum": "not needed",
        "ready": True,
        "bytes": 0,
        "download": 0,
    }


def _describe_published(dataset: PublishedDataset) -> dict[str, Any]:
    checksums = [remote.md5 for remote in dataset.remotes]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "splits": {split: len(members) for split, members in dataset.splits().items()},
        "images": dataset.images,
        "side": dataset.side,
        "terms": dataset.terms,
        "source": dataset.homepage,
        "checksum": _describe_checksums(checksums),
        "ready": is_prepared(dataset),
        "bytes": _disk_usage(prepared_folder(dataset)),
        "download": sum(remote.first_bytes or remote.size or 0 for remote in dataset.remotes)
        if dataset.remotes
        else None,
    }


def _describe_checksums(checksums: list[str | None]) -> str:
    if not checksums:
        return "no download"
    return "MD5" if all(checksums) else "none published"


def _disk_usage(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
