"""The description of a published data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from anyshot.data.image_set import ImageSet
from anyshot.data.published.archives import SourceFiles
from anyshot.data.storage import SPLITS

Splits = dict[str, list[str]]
# (class name, uint8 [n, side, side, 3]), class after class
ClassImages = Iterator[tuple[str, NDArray[np.uint8]]]
# Returns None if the source does not contain the files of the data set.
Reader = Callable[[SourceFiles, Splits], "ClassImages | None"]


@dataclass(frozen=True)
class RemoteFile:
    """An official file: address, published MD5 checksum if there is one, and size in bytes."""

    url: str
    md5: str | None = None
    first_bytes: int | None = None  # only this many bytes are needed
    size: int | None = None

    @property
    def file(self) -> str:
        """Name of the file on disk."""
        return unquote(urlsplit(self.url).path.rsplit("/", 1)[-1])


@dataclass(frozen=True)
class PublishedDataset:
    """A published data set: official files, splits, and the function that reads the files.

    Parameters
    ----------
    name, title : str
        Name in commands, and full name.
    images : int
        Number of images in the official files, as far as they are used.
    side : int
        Side of the prepared images.
    terms, homepage : str
        Licence or terms of use, and official page.
    source_files : str
        Official files, in words.
    patterns : tuple of str
        File name patterns that `read` uses.
    read : callable
        (source files, splits) -> class images, or None if the source is something else.
    remotes : tuple of RemoteFile
        Files to download; empty if the data set must be requested from its owners.
    optional_splits : tuple of str
        Splits that a source may lack.
    kind : str
        Kind of images (see `KINDS`).
    images_per_class : int, optional
        Official images of each class, if all classes have the same number.
    split_images : mapping
        Official images of each split, where they are known.
    """

    name: str
    title: str
    images: int
    side: int
    terms: str
    homepage: str
    source_files: str
    patterns: tuple[str, ...]
    read: Reader
    remotes: tuple[RemoteFile, ...] = ()
    optional_splits: tuple[str, ...] = ()
    kind: str = "photographs"
    images_per_class: int | None = None
    split_images: Mapping[str, int] = field(default_factory=dict)

    def splits(self) -> Splits:
        """Return the class names of each split, in the order in which they are stored."""
        return {split: names for split, names in self._read_split_file().items() if split in SPLITS}

    def split_source(self) -> str:
        """Return who published the split."""
        return str(self._read_split_file()["source"])

    def missing_parts(self, images: ImageSet) -> dict[str, list[int]]:
        """Return {split: [prepared, official images]} for the splits that are incomplete.

        The key is "all" if the official number is only known for the whole set.
        """
        parts = {}
        for split, members in images.splits.items():
            official = self.split_images.get(split, len(members) * (self.images_per_class or 0))
            prepared = int(images.counts[list(members)].sum())
            if official and prepared < official:
                parts[split] = [prepared, official]
        split_sizes_known = self.split_images or self.images_per_class
        if not split_sizes_known and len(images) < self.images:
            parts["all"] = [len(images), self.images]
        return parts

    def _read_split_file(self) -> dict[str, list[str]]:
        path = files("anyshot.data.published").joinpath("splits", f"{self.name}.json")
        return dict(json.loads(path.read_text("utf-8")))
