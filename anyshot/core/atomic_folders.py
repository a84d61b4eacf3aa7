"""Folders that are complete or absent, and locks that the system releases when a process ends.

A folder is written under a hidden temporary name and renamed when it is complete. A lock file next
to it tells other processes that it is in use, so what a killed process leaves behind can be
recognised and removed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from anyshot.core.errors import AnyshotError, FileError
from anyshot.core.files import PathLike, fsync, os_errors_as_messages, temporary_name

TEMPORARY = re.compile(r"\..*\.[0-9a-f]{12}\.tmp", re.DOTALL)  # names made by `temporary_name`
ONE_DAY = 86_400  # seconds
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)  # errors of file systems without locks


@contextmanager
def atomic_folder(path: PathLike) -> Iterator[Path]:
    """Yield a temporary folder that replaces `path` if the block succeeds, else is removed.

    with atomic_folder("cache/glyphs") as folder:
        (folder / "images.npy").write_bytes(...)
    """
    path = Path(path)
    with temporary_folder(path) as temporary:
        yield temporary
        with os_errors_as_messages("write", path):
            for below, _, names in os.walk(temporary):
                for name in [*names, "."]:
                    fsync(os.path.join(below, name))
            _replace_folder(temporary, path)


@contextmanager
def lock_folder(path: PathLike, message: str) -> Iterator[None]:
    """Hold the lock file `path` during the block; raise FileError(message) if it is taken.

    The lock file is removed at the end. The system releases the lock if the process is killed.
    """
    path = Path(path)
    with os_errors_as_messages("write", path):
        try:
            lock = _acquire(path, timeout=0.2)  # its last holder may be removing it just now
        except Timeout as error:
            raise FileError(message) from error
    try:
        yield
    finally:
        with suppress(PermissionError):  # Windows does not remove open files
            path.unlink(missing_ok=True)
        _release(lock)


@contextmanager
def temporary_folder(path: PathLike) -> Iterator[Path]:
    """Yield a new hidden folder next to `path` and remove it at the end.

    Temporary folders that killed processes left there are removed first.
    """
    path = Path(path)
    with os_errors_as_messages("create", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale_temporaries(path.parent)
        temporary = temporary_name(path)
        lock = _acquire(_lock_file(temporary))  # first: a folder without a lock counts as stale
        temporary.mkdir()
    try:
        yield temporary
    except AnyshotError as error:  # name the requested folder, not the temporary one
        raise type(error)(str(error).replace(str(temporary), str(path))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _release(lock)
        _lock_file(temporary).unlink(missing_ok=True)


def remove_stale_temporaries(folder: Path, files: bool = False) -> None:
    """Remove temporary folders of processes that have ended.

    Parameters
    ----------
    folder : Path
        Where to look; sub-folders are not searched.
    files : bool
        Remove temporary files, too. They have no locks, so no other process may write here.
    """
    names = {path.name.removesuffix(".lock") for path in folder.glob(".*.tmp*")}
    for path in [folder / name for name in sorted(names) if TEMPORARY.fullmatch(name)]:
        if path.is_symlink():
            continue
        if path.is_file():
            if files:
                path.unlink(missing_ok=True)
            continue
        with suppress(OSError):  # Timeout: in use; others: removed in the meantime, or not ours
            _remove_if_stale(path)


def _remove_if_stale(path: Path) -> None:
    lock = _acquire(_lock_file(path), timeout=0)
    if lock is not None or time.time() - path.stat().st_mtime > ONE_DAY:
        shutil.rmtree(path, ignore_errors=True)
        _lock_file(path).unlink(missing_ok=True)
    _release(lock)


def _lock_file(temporary: Path) -> Path:
    return temporary.with_name(temporary.name + ".lock")


def _acquire(path: Path, timeout: float = -1) -> BaseFileLock | None:
    """Lock a file, or return None on a file system without locks.

    Raises ``filelock.Timeout`` if another process holds the lock after `timeout` seconds.
    """
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=timeout)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return None
    return lock


def _release(lock: BaseFileLock | None) -> None:
    if lock is not None:
        lock.release()


def _replace_folder(new: Path, path: Path) -> None:
    """Rename the folder `new` to `path`; what is there is moved away first and then removed."""
    if path.exists() or path.is_symlink():
        old = temporary_name(path)
        os.replace(path, old)
        try:
            os.replace(new, path)
        except BaseException:  # also Ctrl-C: the old folder must be back in any case
            os.replace(old, path)
            raise
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink()
    else:
        os.replace(new, path)
    fsync(path.parent)
