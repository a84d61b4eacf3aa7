"""Features kept by content: an image (its file's bytes, or its pixels) meets a backbone once.

One SQLite file a backbone in the cache folder; a batch is written when it is computed, so what was interrupted goes on
where it was, and several processes may share the file.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyshot.classifier.backbones.backbone import Backbone
from anyshot.classifier.backbones.image_input import Picture, cache_content, to_pixels
from anyshot.core.errors import AnyshotError
from anyshot.core.files import cache_folder
from anyshot.core.progress import progress

BATCH = 32  # images computed, and written, at once
SHOWN = 200  # fewer images than this need no progress bar

Features = NDArray[np.float32]


def compute_features(pictures: Sequence[Picture], backbone: Backbone) -> Features:
    """Features of pictures (arrays, PIL images, paths), float32 [n, width]; those met before are read, not computed."""
    if not len(pictures):
        raise AnyshotError("There are no pictures to compute features of; give at least one.")
    keys = [hashlib.sha256(cache_content(picture)).digest() for picture in pictures]
    with _opened(backbone) if backbone.fingerprint else _nowhere() as (read, write):
        found = read(keys)
        missing = [
            i for key, i in {key: i for i, key in enumerate(keys)}.items() if key not in found
        ]  # each once
        with _bar(backbone, len(missing)) as advance:
            for begin in range(0, len(missing), BATCH):
                batch = missing[begin : begin + BATCH]
                computed = backbone(
                    np.stack([to_pixels(pictures[i], backbone.side) for i in batch])
                )
                new = {keys[i]: row for i, row in zip(batch, computed, strict=True)}
                write(new)
                found.update(new)
                advance(len(batch))
    return np.stack([found[key] for key in keys])


Read = Callable[[Sequence[bytes]], dict[bytes, Features]]
Write = Callable[[dict[bytes, Features]], None]


@contextmanager
def _opened(backbone: Backbone) -> Iterator[tuple[Read, Write]]:
    path = cache_path(backbone)
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=60)) as base:
        base.execute(
            "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
        )

        def read(keys: Sequence[bytes]) -> dict[bytes, Features]:
            found = {}
            for key in set(keys):
                row = base.execute("SELECT vector FROM features WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = np.frombuffer(row[0], np.float32)
            return found

        def write(new: dict[bytes, Features]) -> None:
            with base:  # a transaction
                base.executemany(
                    "INSERT OR REPLACE INTO features VALUES (?, ?)",
                    [(k, v.tobytes()) for k, v in new.items()],
                )

        yield read, write


@contextmanager
def _nowhere() -> Iterator[tuple[Read, Write]]:
    yield lambda keys: {}, lambda new: None


def cache_path(backbone: Backbone) -> Path:
    """The file of a backbone's features; its name tells backbone, weights and preprocessing apart."""
    return cache_folder() / "features" / f"{backbone.fingerprint}.sqlite"


@contextmanager
def _bar(backbone: Backbone, total: int) -> Iterator[Callable[[int], None]]:
    if total < SHOWN:
        yield lambda n: None
        return
    with progress(f"Features by {backbone.name}", total) as advance:
        yield advance
