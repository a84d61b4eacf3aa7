"""What there is to know about image sets, as plain values for tables and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyshot.data.embedded import glyphs
from anyshot.data.embedded.digits import open_digits
from anyshot.data.image_set import ImageSet
from anyshot.data.published import CATALOGUE, PublishedDataset, is_prepared, prepared_folder


def describe_all() -> list[dict[str, Any]]:
    """Every set, embedded ones first: name, title, splits, images, side, terms, source, checksum, ready, bytes
    on this disk, and bytes of the download, None for a set that only its owners hand out.
    """
    return [_describe_glyphs(), _describe_digits(), *map(_describe_published, CATALOGUE.values())]


def describe_image_set(images: ImageSet) -> dict[str, Any]:
    """The figures of a set that is open."""
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


def _describe_published(entry: PublishedDataset) -> dict[str, Any]:
    sums = [remote.md5 for remote in entry.remotes]
    return {
        "name": entry.name,
        "title": entry.title,
        "splits": {split: len(members) for split, members in entry.splits().items()},
        "images": entry.images,
        "side": entry.side,
        "terms": entry.terms,
        "source": entry.homepage,
        "checksum": "no download" if not sums else "MD5" if all(sums) else "none published",
        "ready": is_prepared(entry),
        "bytes": _disk_usage(prepared_folder(entry)),
        "download": sum(remote.first_bytes or remote.size or 0 for remote in entry.remotes)
        if entry.remotes
        else None,
    }


def _disk_usage(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
