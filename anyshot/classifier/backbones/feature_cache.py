"""The feature cache: one SQLite file for all backbones, in the cache folder.

Features are looked up by the backbone's fingerprint and the content of the image. Every entry has a
digest, so that damaged entries are computed again. If the file is damaged, full, locked or
read-only, features are computed without it, with one warning. The least recently used entries are
removed when the cache grows beyond its limit. Several processes may share the file.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import FileError
from anyshot.core.files import cache_folder, os_errors_as_messages

log = logging.getLogger(__name__)

Features = NDArray[np.float32]
T = TypeVar("T")
MAX_BYTES = 2_000_000_000  # of features
LOCK_SECONDS = 5.0  # how long to wait for another process
USED_EVERY = 3600  # seconds: the time of use is recorded no more often, to save writes
TABLE = """CREATE TABLE IF NOT EXISTS features (
    backbone TEXT, image BLOB, vector BLOB, digest BLOB, used INTEGER,
    PRIMARY KEY (backbone, image)) WITHOUT ROWID"""

_warned: set[Path] = set()  # caches that a warning was given for in this process


def cache_path() -> Path:
    """The file of the feature cache; it may not exist."""
    return cache_folder() / "features.sqlite"


class FeatureCache:
    """The features of one backbone."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.path = cache_path()

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Features]:
        """The features that are cached, by key; entries with a wrong digest are left out."""

        def select(base: sqlite3.Connection) -> dict[bytes, Features]:
            features = {}
            old = []
            now = int(time.time())
            for key in set(keys):
                row = base.execute(
                    "SELECT vector, digest, used FROM features WHERE backbone = ? AND image = ?",
                    (self.fingerprint, key),
                ).fetchone()
                if row is not None and self._is_intact(key, row[0], row[1]):
                    features[key] = np.frombuffer(row[0], np.float32)
                    if not isinstance(row[2], int) or abs(now - row[2]) > USED_EVERY:
                        old.append((now, self.fingerprint, key))
            try:
                _mark_used(base, old)
            except sqlite3.Error as error:  # a read-only file can be read all the same
                self._warn(error)
            return features

        return (self._attempt(select) or {}) if keys and self.path.exists() else {}

    def write(self, features: Mapping[bytes, Features]) -> None:
        """Add features by key; the least recently used ones are removed if there are too many."""

        def insert(base: sqlite3.Connection) -> None:
            now = int(time.time())
            rows = []
            for key, row in features.items():
                vector = np.ascontiguousarray(row, np.float32).tobytes()
                rows.append((self.fingerprint, key, vector, self._digest(key, vector), now))
            with base:  # a transaction
                base.execute(TABLE)
                base.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?, ?)", rows)
            _evict(base, MAX_BYTES)

        self._attempt(insert)

    def _is_intact(self, key: bytes, vector: object, digest: object) -> bool:
        """Whether an entry is a vector with the right digest."""
        if not isinstance(vector, bytes) or not vector or len(vector) % np.float32().itemsize:
            return False
        return digest == self._digest(key, vector)

    def _digest(self, key: bytes, vector: bytes) -> bytes:
        return hashlib.sha256(self.fingerprint.encode() + key + vector).digest()[:16]

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run an action on the open cache; if the cache cannot be used, warn once."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connect(self.path)) as base:
                return action(base)
        except (sqlite3.Error, OSError) as error:
            self._warn(error)
            return None

    def _warn(self, error: Exception) -> None:
        if self.path in _warned:
            return
        _warned.add(self.path)
        log.warning(
            "The feature cache '%s' cannot be used (%s); features are computed without it. "
            "anyshot cache clear removes it.",
            self.path,
            error,
        )


def cache_contents() -> dict[str, tuple[int, int]]:
    """Backbone fingerprint → number of images and bytes of features."""
    if not cache_path().exists():
        return {}
    with _cache_errors_as_messages(), closing(_connect(cache_path())) as base:
        rows = base.execute(
            "SELECT backbone, COUNT(*), SUM(LENGTH(vector)) FROM features GROUP BY backbone"
        ).fetchall()
    return {str(name): (int(images), int(size or 0)) for name, images, size in rows}


def clear_cache() -> int:
    """Remove the feature cache; returns the number of bytes that were freed."""
    freed = 0
    for suffix in ("", "-journal", "-wal", "-shm"):
        path = cache_path().with_name(cache_path().name + suffix)
        with os_errors_as_messages("remove", path):
            if path.is_file() or path.is_symlink():
                freed += path.lstat().st_size
                path.unlink()
    return freed


def _connect(path: Path) -> sqlite3.Connection:
    base = sqlite3.connect(path, timeout=LOCK_SECONDS)
    try:
        base.execute("PRAGMA auto_vacuum = FULL")  # removed entries free space
    except sqlite3.Error:
        base.close()
        raise
    return base


@contextmanager
def _cache_errors_as_messages() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise FileError(
            f"The feature cache '{cache_path()}' cannot be read ({error}); "
            "anyshot cache clear removes it."
        ) from error


def _mark_used(base: sqlite3.Connection, rows: Sequence[tuple[int, str, bytes]]) -> None:
    if not rows:
        return
    with base:
        base.executemany("UPDATE features SET used = ? WHERE backbone = ? AND image = ?", rows)


def _evict(base: sqlite3.Connection, limit: int) -> None:
    """Remove the least recently used entries until 90% of the limit is left."""
    (pages,) = base.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = base.execute("PRAGMA page_size").fetchone()
    size = pages * page_bytes
    if size <= limit:
        return
    (total,) = base.execute("SELECT SUM(LENGTH(vector)) FROM features").fetchone()
    excess = total * (1 - 0.9 * limit / size)  # bytes of vectors; keys and pages add to the size
    removed = []
    for backbone, image, length in base.execute(
        "SELECT backbone, image, LENGTH(vector) FROM features ORDER BY used"
    ):
        if excess <= 0:
            break
        removed.append((backbone, image))
        excess -= length
    with base:
        base.executemany("DELETE FROM features WHERE backbone = ? AND image = ?", removed)
