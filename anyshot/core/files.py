"""Read and write files; a written file is complete or absent.

Data are written under a temporary name in the same folder, flushed to disk and then renamed.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.core.errors import FileError
from anyshot.core.text import readable, spreadsheet_safe

if TYPE_CHECKING:
    from torch import Tensor

PathLike = str | os.PathLike[str]


def cache_folder() -> Path:
    """Return the folder for data that can be rebuilt; it may not exist yet.

    It is $ANYSHOT_CACHE if that is set, else the cache folder of the operating system.
    """
    if chosen := os.environ.get("ANYSHOT_CACHE"):
        expanded = os.path.expanduser(chosen)
        if expanded.startswith("~"):
            raise FileError(
                f"ANYSHOT_CACHE is '{readable(chosen)}', the home folder of an unknown user; "
                "set it to an existing folder."
            )
        return Path(expanded)
    import platformdirs

    return platformdirs.user_cache_path("anyshot")


def sha256(*parts: bytes | memoryview | str) -> str:
    """Return the SHA-256 of the parts, one after the other, as hexadecimal digits.

    >>> sha256("any", b"shot") == sha256(b"anyshot")
    True
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode(errors="surrogateescape") if isinstance(part, str) else part)
    return total.hexdigest()


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write a file. Readers, also after a crash, find the old content or the new, never a part."""
    path = Path(os.path.realpath(path))  # replace the target of a link, not the link
    with os_errors_as_messages("write", path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a terminal
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
    """Raise an error now if `path` cannot be written, instead of after hours of work.

    >>> check_writable("/dev/null/results.json")
    Traceback (most recent call last):
    anyshot.core.errors.FileError: Cannot write '/dev/null/results.json': Not a directory.
    """
    path = Path(path)
    if not path.name:
        raise FileError(f"'{path}' is not a file name; give the name of a file.")
    with os_errors_as_messages("write", path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():  # a pipe or a terminal: /dev/stdout
            return
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        probe = folder / temporary_name(path).name
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()


def append_line(path: PathLike, line: str) -> None:
    """Append one line to a text file."""
    path = Path(path)
    with os_errors_as_messages("write", path), open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def write_json(path: PathLike, obj: Any) -> None:
    """Write an object as indented JSON; see :func:`to_plain` for what it may contain."""
    text = json.dumps(to_plain(obj), indent=2, ensure_ascii=False, allow_nan=False)
    # file names that are not UTF-8 contain surrogates; they become JSON escapes such as "\\udce9"
    write_bytes(path, (text + "\n").encode(errors="backslashreplace"))


def read_json(path: PathLike) -> Any:
    """Read a JSON file; an error names the file that is missing or damaged."""
    path = Path(path)
    with os_errors_as_messages("read", path):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError includes UnicodeDecodeError
        raise FileError(
            f"The file '{readable(path)}' is not valid JSON ({error}). Restore or delete it."
        ) from error


def csv_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Mappings with the same keys as CSV with a header; no cell can act as a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([spreadsheet_safe(key) for key in rows[0]])
    writer.writerows([spreadsheet_safe(row.get(key)) for key in rows[0]] for row in rows)
    return text.getvalue().encode(errors="backslashreplace")


def write_csv_rows(path: PathLike, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write mappings with the same keys as a CSV file, see `csv_bytes`."""
    write_bytes(path, csv_bytes(rows))


def write_tensors(
    path: PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors and text metadata as a safetensors file; equal content, equal bytes."""
    from safetensors.torch import save

    # copies, because safetensors refuses tensors that share memory
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, _sort_metadata(save(copies, dict(metadata or {}))))


def _sort_metadata(data: bytes) -> bytes:
    """Sort the metadata of safetensors bytes, which come in the random order of a hash map.

    The format is: length of the header (8 bytes, little endian), header (JSON), data. The header is
    padded with spaces to a multiple of 8 bytes.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(data)[end:]])


def to_plain(obj: Any) -> Any:
    """Return an object as dict, list, str, int, float, bool and None; NaN and infinity become None.

    Accepts dataclasses, mappings, sequences, sets, paths, and NumPy and torch values.

    >>> to_plain({"loss": float("nan"), "shots": (1, 5)})
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
    if isinstance(obj, set | frozenset):
        return [to_plain(value) for value in sorted(obj)]
    if isinstance(obj, list | tuple):
        return [to_plain(value) for value in obj]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    if hasattr(obj, "tolist"):  # scalars and arrays of NumPy and torch
        return to_plain(obj.tolist())
    raise TypeError(f"{type(obj).__name__} has no plain JSON form")


def temporary_name(path: Path) -> Path:
    """Return a new hidden name in the folder of `path`, for content that will replace it."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def fsync(path: PathLike) -> None:
    """Flush a file or folder to disk. Windows cannot open folders and does not need it for them."""
    if os.name == "nt" and os.path.isdir(path):
        return
    # Windows flushes only what is open for writing
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def os_errors_as_messages(verb: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a FileError that names the path: "Cannot write 'x': …"."""
    name = readable(path)
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(
            f"Cannot {verb} '{name}': there is no such file. Check the path."
        ) from error
    except OSError as error:
        in_cache = path.absolute().is_relative_to(cache_folder().absolute())
        hint = " Set $ANYSHOT_CACHE to use another folder." if verb != "read" and in_cache else ""
        raise FileError(f"Cannot {verb} '{name}': {error.strerror or error}.{hint}") from error
    except ValueError as error:
        if "\0" not in str(path):
            raise
        raise FileError(f"Cannot {verb} '{name}': a path has no null characters.") from error
