"""Files that are either whole or absent: written under a temporary name in the same folder, flushed, then renamed."""

from __future__ import annotations

import errno
import json
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.core.errors import FileError

if TYPE_CHECKING:
    from torch import Tensor

PathLike = str | os.PathLike[str]


def cache_folder() -> Path:
    """The folder for what can be built again: $ANYSHOT_CACHE, or else the user's cache folder. It may not exist yet."""
    if chosen := os.environ.get("ANYSHOT_CACHE"):
        place = os.path.expanduser(chosen)
        if place.startswith("~"):
            raise FileError(
                f"ANYSHOT_CACHE is '{chosen}', the home of a user whom this machine does not know."
            )
        return Path(place)
    import platformdirs

    return platformdirs.user_cache_path("anyshot")


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write `data` to `path`; a reader, or a crash at any moment, finds the old file or the new one, never a part."""
    path = Path(os.path.realpath(path))  # a link stays one
    with os_errors_as_messages("write", path):
        if (
            path.exists() and not path.is_file() and not path.is_dir()
        ):  # a pipe or terminal is not replaced
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync(path.parent)


def check_writable(path: PathLike) -> None:
    """Say now, not after hours of work, that the file `path` cannot be written; leaves nothing behind.

    >>> check_writable("/dev/null/results.json")
    Traceback (most recent call last):
    anyshot.core.errors.AnyshotError: Cannot write '/dev/null/results.json': Not a directory.
    """
    path = Path(path)
    if not path.name:
        raise FileError(f"'{path}' is no name of a file; give one such as results.json.")
    with os_errors_as_messages("write", path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():  # a pipe or terminal: /dev/stdout
            return
        above = next(folder for folder in path.absolute().parents if folder.exists())
        probe = above / temporary_name(path).name
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()


def append_line(path: PathLike, line: str) -> None:
    """Add one line to a text file."""
    path = Path(path)
    with os_errors_as_messages("write", path), open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def write_json(path: PathLike, obj: Any) -> None:
    """Write `obj` as indented JSON. Dataclasses, paths and NumPy values are welcome; NaN and infinities become null."""
    text = json.dumps(to_plain(obj), indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(
        path, (text + "\n").encode(errors="backslashreplace")
    )  # "\\udce9": names that are not UTF-8 survive


def read_json(path: PathLike) -> Any:
    """Read a JSON file, or say which file is missing or broken."""
    path = Path(path)
    with os_errors_as_messages("read", path):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:  # also UnicodeDecodeError
        raise FileError(
            f"The file '{path}' is not valid JSON ({error}). Restore or delete it."
        ) from error


def write_tensors(
    path: PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors of any device, layout or sharing as a safetensors file with text `metadata`."""
    from safetensors.torch import save

    # safetensors refuses views that share memory, hence the copy
    apart = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, save(apart, dict(metadata or {})))


def to_plain(obj: Any) -> Any:
    """`obj` in terms of dict, list, str, int, float, bool and None only; non-finite numbers become None.

    >>> plain({"loss": float("nan"), "shots": (1, 5)})
    {'loss': None, 'shots': [1, 5]}
    """
    if obj is None or isinstance(obj, str | bool | int):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else None
    if is_dataclass(obj) and not isinstance(obj, type):
        return to_plain(asdict(obj))
    if isinstance(obj, Mapping):
        return {str(key): to_plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple | set | frozenset):
        return [
            to_plain(value) for value in (sorted(obj) if isinstance(obj, set | frozenset) else obj)
        ]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    if hasattr(obj, "tolist"):  # NumPy and torch, scalars and arrays
        return to_plain(obj.tolist())
    raise TypeError(f"{type(obj).__name__} has no plain JSON form")


def temporary_name(path: Path) -> Path:
    """A new hidden name beside `path`, for what is to take its place when it is whole."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def fsync(path: PathLike) -> None:
    """Make sure that a file or folder survives a power cut. Windows cannot open folders, and need not."""
    if os.name == "nt" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def os_errors_as_messages(verb: str, path: Path) -> Iterator[None]:
    """Turn the system's refusal into a sentence that names the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(
            f"Cannot {verb} '{path}': there is no such file. Check the path."
        ) from error
    except OSError as error:
        hint = (
            " Another place for the cache can be named in $ANYSHOT_CACHE."
            if verb != "read" and _in_cache(path)
            else ""
        )
        raise FileError(f"Cannot {verb} '{path}': {error.strerror or error}.{hint}") from error


def _in_cache(path: Path) -> bool:
    return path.absolute().is_relative_to(cache_folder().absolute())
