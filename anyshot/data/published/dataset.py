"""What is known about a published data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from anyshot.data.published.archives import SourceFiles
from anyshot.data.storage import SPLITS

Splits = dict[str, list[str]]
ClassImages = Iterator[
    tuple[str, NDArray[np.uint8]]
]  # (class name, uint8 [n, side, side, 3]), class after class
Reader = Callable[
    [SourceFiles, Splits], "ClassImages | None"
]  # None: the files of this data set are not in the tree


@dataclass(frozen=True)
class RemoteFile:
    """An official file: where it is, its bytes, and its MD5 sum where one has been published."""

    url: str
    md5: str | None = None
    first_bytes: int | None = None  # only so many bytes are needed
    size: int | None = None  # of the whole file

    @property
    def file(self) -> str:
        """Its name on disk."""
        from urllib.parse import unquote, urlsplit

        return unquote(urlsplit(self.url).path.rsplit("/", 1)[-1])


@dataclass(frozen=True)
class PublishedDataset:
    """A published data set: what it is, where its files are, and how they become images grouped by class."""

    name: str
    title: str
    images: int  # in the official files, as far as they are used
    side: int
    terms: str
    homepage: str
    source_files: str  # which files to fetch, in words
    patterns: tuple[str, ...]  # file name patterns that `read` looks at
    read: Reader
    remotes: tuple[
        RemoteFile, ...
    ] = ()  # empty: nothing may be downloaded without asking its owners
    optional_splits: tuple[str, ...] = ()  # splits that a source may lack
    kind: str = "photographs"  # or another of KINDS

    def splits(self) -> Splits:
        """Class names by split, in the order in which they are stored."""
        return {split: names for split, names in self._read_split_file().items() if split in SPLITS}

    def split_source(self) -> str:
        """Who made the split."""
        return str(self._read_split_file()["source"])

    def _read_split_file(self) -> dict[str, list[str]]:
        text = (
            files("anyshot.data.published")
            .joinpath("splits", f"{self.name}.json")
            .read_text("utf-8")
        )
        return dict(json.loads(text))
