"""Folders that are either whole or absent, and locks that end with their holder: what a killed process leaves behind is
known to be nobody's, and goes when the next one starts."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyshot.core.errors import AnyshotError
from anyshot.core.files import PathLike, fsync, os_errors_as_messages, temporary_name

SCRATCH = re.compile(r"\..*\.[0-9a-f]{12}\.tmp", re.DOTALL)  # what `sibling` makes


@contextmanager
def atomic_folder(path: PathLike) -> Iterator[Path]:
    """A temporary sibling folder that takes the place of `path` when the block ends well and vanishes when it does not.

    with fresh_folder("cache/glyphs") as folder:
        (folder / "images.npy").write_bytes(...)
    """
    path = Path(path)
    with temporary_folder(path) as temporary:
        yield temporary
        with os_errors_as_messages("write", path):
            for below, _, names in os.walk(temporary):
                for name in [*names, "."]:
                    fsync(os.path.join(below, name))
            _take_place(temporary, path)


@contextmanager
def lock_folder(path: PathLike, sentence: str) -> Iterator[None]:
    """Hold the lock file `path`, released by our death too; if somebody else has it, `sentence` is the error."""
    path = Path(path)
    with os_errors_as_messages("write", path):
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(descriptor, wait=False)
            except BlockingIOError as error:
                os.close(descriptor)
                raise AnyshotError(sentence) from error
            if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                break
            os.close(descriptor)  # its holder removed it while we waited for it
    try:
        yield
    finally:
        if os.name != "nt":  # where open files cannot be removed
            path.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def temporary_folder(path: PathLike) -> Iterator[Path]:
    """A new hidden folder beside `path`, gone when the block ends; those that killed processes left there go too."""
    path = Path(path)
    with os_errors_as_messages("create", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale_temporaries(path.parent)
        temporary, lock = _claimed(path)
    try:
        yield temporary
    except AnyshotError as error:  # nobody should look for a folder that is gone
        raise AnyshotError(str(error).replace(str(temporary), str(path))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_stale_temporaries(folder: Path, files: bool = False) -> None:
    """Remove the scratch folders in `folder` whose makers are dead; those in use are locked, by any process. `files`
    goes too: half-written files, where nobody else writes."""
    for path in folder.glob(".*.tmp"):
        if not SCRATCH.fullmatch(path.name) or path.is_symlink():
            continue
        if not path.is_dir():
            if files:
                path.unlink(missing_ok=True)
            continue
        try:
            lock = _locked(path, wait=False)
            old = time.time() - path.stat().st_mtime > 86_400
        except OSError:  # in use, or gone meanwhile
            continue
        if lock is not None or old:  # where nothing can be locked, age must do
            shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _take_place(new: Path, path: Path) -> None:
    """Rename folder `new` to `path`; what stood there is moved aside first, since a full folder cannot be replaced."""
    if path.exists() or path.is_symlink():
        aside = temporary_name(path)
        os.replace(path, aside)
        try:
            os.replace(new, path)
        except BaseException:  # Ctrl-C too: better the old one than none
            os.replace(aside, path)
            raise
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink()
    else:
        os.replace(new, path)
    fsync(path.parent)


def _claimed(path: Path) -> tuple[Path, int | None]:
    """A new folder beside `path`, and the lock that tells others that it is in use, until it is closed or we die."""
    while True:
        temporary = temporary_name(path)
        temporary.mkdir()
        try:
            lock = _locked(temporary, wait=True)
        except FileNotFoundError:  # cleared by another process before it was locked
            continue
        if lock is None or temporary.exists():
            return temporary, lock
        os.close(lock)


def _locked(folder: Path, wait: bool) -> int | None:
    """An exclusive lock on a folder, as a descriptor; BlockingIOError if another has it, None where there is none."""
    if os.name == "nt":  # which cannot open folders
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _lock(descriptor, wait):
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock(descriptor: int, wait: bool) -> bool:
    """Lock an open file until it is closed; BlockingIOError if another has it, false on file systems without locks."""
    try:
        import fcntl
    except ImportError:
        return _lock_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _lock_windows(descriptor: int) -> bool:
    try:
        import msvcrt
    except ImportError:
        return False
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from error
    return True
