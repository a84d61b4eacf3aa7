"""Files that are either whole or absent: written under a temporary name in the same folder, flushed, then renamed."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.errors import AnyshotError

if TYPE_CHECKING:
    from torch import Tensor

PathLike = str | os.PathLike[str]
SCRATCH = re.compile(r"\..*\.[0-9a-f]{12}\.tmp", re.DOTALL)  # what `_sibling` makes


def cache_folder() -> Path:
    """The folder for what can be built again: $ANYSHOT_CACHE, or else the user's cache folder. It may not exist yet."""
    if chosen := os.environ.get("ANYSHOT_CACHE"):
        place = os.path.expanduser(chosen)
        if place.startswith("~"):
            raise AnyshotError(f"ANYSHOT_CACHE is '{chosen}', the home of a user whom this machine does not know.")
        return Path(place)
    import platformdirs

    return platformdirs.user_cache_path("anyshot")


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write `data` to `path`; a reader, or a crash at any moment, finds the old file or the new one, never a part."""
    path = Path(os.path.realpath(path))  # a link stays one
    with explained("write", path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or terminal is not replaced
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _sibling(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _fsync(path.parent)


def check_writable(path: PathLike) -> None:
    """Say now, not after hours of work, that the file `path` cannot be written; leaves nothing behind.

    >>> check_writable("/dev/null/results.json")
    Traceback (most recent call last):
    anyshot.errors.AnyshotError: Cannot write '/dev/null/results.json': Not a directory.
    """
    path = Path(path)
    if not path.name:
        raise AnyshotError(f"'{path}' is no name of a file; give one such as results.json.")
    with explained("write", path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():  # a pipe or terminal: /dev/stdout
            return
        above = next(folder for folder in path.absolute().parents if folder.exists())
        probe = above / _sibling(path).name
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()


def append_line(path: PathLike, line: str) -> None:
    """Add one line to a text file."""
    path = Path(path)
    with explained("write", path), open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def write_json(path: PathLike, obj: Any) -> None:
    """Write `obj` as indented JSON. Dataclasses, paths and NumPy values are welcome; NaN and infinities become null."""
    text = json.dumps(plain(obj), indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode(errors="backslashreplace"))  # "\\udce9": names that are not UTF-8 survive


def read_json(path: PathLike) -> Any:
    """Read a JSON file, or say which file is missing or broken."""
    path = Path(path)
    with explained("read", path):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:  # also UnicodeDecodeError
        raise AnyshotError(f"The file '{path}' is not valid JSON ({error}). Restore or delete it.") from error


def write_tensors(path: PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write named tensors of any device, layout or sharing as a safetensors file with text `metadata`."""
    from safetensors.torch import save

    # safetensors refuses views that share memory, hence the copy
    apart = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, save(apart, dict(metadata or {})))


@contextmanager
def fresh_folder(path: PathLike) -> Iterator[Path]:
    """A temporary sibling folder that takes the place of `path` when the block ends well and vanishes when it does not.

    with fresh_folder("cache/glyphs") as folder:
        (folder / "images.npy").write_bytes(...)
    """
    path = Path(path)
    with scratch_folder(path) as temporary:
        yield temporary
        with explained("write", path):
            for below, _, names in os.walk(temporary):
                for name in [*names, "."]:
                    _fsync(os.path.join(below, name))
            _take_place(temporary, path)


@contextmanager
def held(path: PathLike, sentence: str) -> Iterator[None]:
    """Hold the lock file `path`, released by our death too; if somebody else has it, `sentence` is the error."""
    path = Path(path)
    with explained("write", path):
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
def scratch_folder(path: PathLike) -> Iterator[Path]:
    """A new hidden folder beside `path`, gone when the block ends; those that killed processes left there go too."""
    path = Path(path)
    with explained("create", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(path.parent)
        temporary, lock = _claimed(path)
    try:
        yield temporary
    except AnyshotError as error:  # nobody should look for a folder that is gone
        raise AnyshotError(str(error).replace(str(temporary), str(path))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def clear_leftovers(folder: Path, files: bool = False) -> None:
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


def plain(obj: Any) -> Any:
    """`obj` in terms of dict, list, str, int, float, bool and None only; non-finite numbers become None.

    >>> plain({"loss": float("nan"), "shots": (1, 5)})
    {'loss': None, 'shots': [1, 5]}
    """
    if obj is None or isinstance(obj, str | bool | int):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else None
    if is_dataclass(obj) and not isinstance(obj, type):
        return plain(asdict(obj))
    if isinstance(obj, Mapping):
        return {str(key): plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple | set | frozenset):
        return [plain(value) for value in (sorted(obj) if isinstance(obj, set | frozenset) else obj)]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    if hasattr(obj, "tolist"):  # NumPy and torch, scalars and arrays
        return plain(obj.tolist())
    raise TypeError(f"{type(obj).__name__} has no plain JSON form")


def _take_place(new: Path, path: Path) -> None:
    """Rename folder `new` to `path`; what stood there is moved aside first, since a full folder cannot be replaced."""
    if path.exists() or path.is_symlink():
        aside = _sibling(path)
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
    _fsync(path.parent)


def _claimed(path: Path) -> tuple[Path, int | None]:
    """A new folder beside `path`, and the lock that tells others that it is in use, until it is closed or we die."""
    while True:
        temporary = _sibling(path)
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


def _sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def _fsync(path: PathLike) -> None:
    """Make sure that a file or folder survives a power cut. Windows cannot open folders, and need not."""
    if os.name == "nt" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(verb: str, path: Path) -> Iterator[None]:
    """Turn the system's refusal into a sentence that names the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise AnyshotError(f"Cannot {verb} '{path}': there is no such file. Check the path.") from error
    except OSError as error:
        hint = (
            " Another place for the cache can be named in $ANYSHOT_CACHE." if verb != "read" and _in_cache(path) else ""
        )
        raise AnyshotError(f"Cannot {verb} '{path}': {error.strerror or error}.{hint}") from error


def _in_cache(path: Path) -> bool:
    return path.absolute().is_relative_to(cache_folder().absolute())
