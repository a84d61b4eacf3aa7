"""Find the files of a source: in a folder, or in archives that are unpacked to a temporary folder.

Archives are not trusted: `unpack` writes regular files inside its folder only, limits bytes and
files, and reads every archive to its end, where compressed ones have their checksum.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

from anyshot.core.errors import DataError
from anyshot.core.files import os_errors_as_messages
from anyshot.data.walk import walk_files

MAX_BYTES = 12 * 2**30  # unpacked; the largest archive of the catalogue takes 3 GB
MAX_FILES = 500_000
MAX_READ = 2**25  # bytes of one read; only a forged header needs more
BLOCK = 2**20
COMPRESSIONS = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
Member = tuple[str, IO[bytes]]  # name and content


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source: those on disk, and those unpacked from archives."""

    files: tuple[Path, ...]

    def find_all(self, *patterns: str) -> list[Path]:
        """Return the files whose name matches a pattern (upper or lower case), sorted by path."""
        return sorted(path for path in self.files if name_matches(path.name, patterns))

    def find_first(self, *patterns: str) -> Path | None:
        """Return the first file that matches, or None."""
        return next(iter(self.find_all(*patterns)), None)


def name_matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a file name matches a pattern, in upper or lower case."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def scan_source(source: Path, patterns: tuple[str, ...]) -> tuple[SourceFiles, list[Path]]:
    """Return the files of a source that match a pattern, and its archives.

    Archives are recognised by their first bytes. Matching files next to a single file are included.
    """
    if source.is_dir():
        limit = 4 * MAX_FILES
        paths = list(islice(walk_files(source, source, skipped=[]), limit + 1))
        if len(paths) > limit:
            raise DataError(
                f"{source} has more than {limit} files; give the folder of the data set."
            )
    elif source.is_file():
        siblings = [path for path in source.parent.iterdir() if path != source]
        paths = [source, *(p for p in siblings if p.is_file() and name_matches(p.name, patterns))]
    else:
        raise DataError(f"There is no file or folder {source}; check the path of the source.")
    plain = tuple(path for path in paths if name_matches(path.name, patterns))
    archives = [
        path for path in paths if not name_matches(path.name, patterns) and archive_kind(path)
    ]
    return SourceFiles(plain), archives


def archive_kind(path: Path) -> str:
    """Return "zip", "tar" (compressed or not) or an empty string."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return ""
    if head.startswith(ZIP_MAGIC):
        return "zip"
    is_tar = head[257:262] == b"ustar" or head.startswith(tuple(COMPRESSIONS))
    return "tar" if is_tar else ""


def unpack(
    archive: Path, patterns: tuple[str, ...], into: Path, advance: Callable[[], None] = lambda: None
) -> SourceFiles:
    """Unpack the files of an archive that match a pattern; `advance` is called after each.

    Paths and links that lead out of the folder, devices, too many bytes or files, and any damage
    are errors that name the archive.
    """
    remaining = MAX_BYTES
    files: list[Path] = []
    members = _zip_members if archive_kind(archive) == "zip" else _tar_members
    with _damage_as_message(archive):
        for name, data in members(archive, patterns, into):
            target = into / name
            with os_errors_as_messages("write", target), data:
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "wb") as file:
                    for block in _read_blocks(archive, data, remaining):
                        file.write(block)
                        remaining -= len(block)
            files.append(target)
            advance()
    return SourceFiles(tuple(files))


def _zip_members(archive: Path, patterns: tuple[str, ...], into: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as container:
        if len(container.infolist()) > MAX_FILES:
            raise _refusal_error(archive, f"it has more than {MAX_FILES} files")
        for info in container.infolist():
            member = tarfile.TarInfo(info.filename)
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise _refusal_error(archive, f"{info.filename!r} is a link")
            name = _check_member(archive, member, into).name
            if not info.is_dir() and name_matches(PurePosixPath(name).name, patterns):
                yield name, container.open(info)
            else:  # its name may be damaged: reading it compares its checksum
                with container.open(info) as data:
                    deque(_read_blocks(archive, data, MAX_BYTES), 0)


def _tar_members(archive: Path, patterns: tuple[str, ...], into: Path) -> Iterator[Member]:
    size = 0
    with _open_decompressed(archive) as file:
        reader = _BoundedReader(file)
        with tarfile.open(fileobj=reader, mode="r:") as stream:  # type: ignore[call-overload]
            for count, original in enumerate(stream):
                size += original.size
                if count >= MAX_FILES or size > MAX_BYTES:
                    limits = f"{MAX_FILES} files or {MAX_BYTES} bytes"
                    raise _refusal_error(archive, f"it has more than {limits}")
                member = _check_member(archive, original, into)
                if member.isfile() and name_matches(PurePosixPath(member.name).name, patterns):
                    data = stream.extractfile(original)
                    assert data is not None
                    yield member.name, data
            # tarfile takes any block that is not a header for the end, which is a block of zeros.
            if reader.last != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("it does not end with a block of zeros")
            deque(_read_blocks(archive, file, MAX_BYTES), 0)


def _check_member(archive: Path, member: tarfile.TarInfo, into: Path) -> tarfile.TarInfo:
    """Refuse paths and links that lead out of the folder, and devices; return the safe member."""
    try:
        safe = tarfile.data_filter(member, str(into))
    except tarfile.FilterError as error:
        raise _refusal_error(archive, str(error)) from error
    except ValueError as error:  # a null byte
        raise _refusal_error(archive, f"the name {member.name!r} is malformed") from error
    return safe


@contextmanager
def _damage_as_message(archive: Path) -> Iterator[None]:
    """Turn errors of the archive modules into a message that names the archive."""
    damage = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
    try:
        yield
    except damage as error:
        raise DataError(
            f"The archive {archive} is damaged ({error}); download it again."
        ) from error
    except (RuntimeError, NotImplementedError, ValueError) as error:  # encrypted, unknown packing
        raise _refusal_error(archive, str(error)) from error


def _read_blocks(archive: Path, data: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the bytes of a member up to a limit, whatever its header claims."""
    with _damage_as_message(archive):
        while block := data.read(BLOCK):
            limit -= len(block)
            if limit < 0:
                raise _refusal_error(archive, f"it unpacks to more than {MAX_BYTES} bytes")
            yield block


def _open_decompressed(archive: Path) -> IO[bytes]:
    """Open a tar archive, whatever its compression."""
    with open(archive, "rb") as file:
        head = file.read(6)
    for magic, module in COMPRESSIONS.items():
        if head.startswith(magic):
            return module.open(archive, "rb")
    return open(archive, "rb")


class _BoundedReader:
    """A file that refuses large reads: a forged header could fill the memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.tell = file.tell
        self.seek = file.seek
        self.last = b""  # the last bytes that were read

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_READ:
            raise ValueError(f"a header in it claims {size} bytes")
        self.last = self.file.read(size)
        return self.last


def _refusal_error(archive: Path, reason: str) -> DataError:
    """Return the error for an archive that is not safe to unpack."""
    return DataError(f"The archive {archive} is refused: {reason}.")
