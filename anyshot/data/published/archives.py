"""The files of a source: a folder, or archives in it unpacked to a temporary folder. Archives are not trusted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages

MAX_BYTES = 12 * 2**30  # unpacked; the largest of the nine takes 3 GB
MAX_FILES = 500_000
MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "tar",
    b"BZh": "tar",
    b"\xfd7zXZ": "tar",
}


@dataclass(frozen=True)
class SourceFiles:
    """Files by name: those on disk, and those taken out of archives."""

    files: tuple[Path, ...]

    def matching(self, *patterns: str) -> list[Path]:
        """Files whose name matches one of the patterns, case aside, in the order of their paths."""
        return sorted(path for path in self.files if matches(path.name, patterns))

    def first_match(self, *patterns: str) -> Path | None:
        """The first file that matches."""
        return next(iter(self.matching(*patterns)), None)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a file's name fits one of the patterns, case aside."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def scan_source(source: Path, wanted: tuple[str, ...]) -> tuple[SourceFiles, list[Path]]:
    """The wanted files that lie open in a source, and its archives (known by their first bytes, not their names)."""
    if source.is_dir():
        paths = list(_walk(source))
    elif source.is_file():
        beside = (
            path
            for path in source.parent.iterdir()
            if path != source and matches(path.name, wanted)
        )
        paths = [source, *(path for path in beside if path.is_file())]
    else:
        raise AnyshotError(f"There is no file or folder {source}; check the path given as source.")
    plain = tuple(path for path in paths if matches(path.name, wanted))
    archives = [path for path in paths if not matches(path.name, wanted) and archive_kind(path)]
    return SourceFiles(plain), archives


def archive_kind(path: Path) -> str:
    """ "zip", "tar" (compressed or not) or nothing."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return ""
    if head[257:262] == b"ustar":
        return "tar"
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "")


def unpack(
    archive: Path, wanted: tuple[str, ...], into: Path, advance: Callable[[], None] = lambda: None
) -> SourceFiles:
    """Take the wanted files out of an archive; `advance` is called after each.

    Names that lead out of the folder, links, devices, more bytes or files than any of the data sets has, and damage of
    any kind are refused with a sentence that names the archive. It is read to its end, where gzip has its checksum.
    """
    left = MAX_BYTES
    taken: list[Path] = []
    for name, data in _members(archive, wanted):
        target = into / _safe_path(archive, name)
        with os_errors_as_messages("write", target), data:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as file:
                for block in _blocks(archive, data, left):
                    file.write(block)
                    left -= len(block)
        taken.append(target)
        advance()
    return SourceFiles(tuple(taken))


def _members(archive: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, IO[bytes]]]:
    """Wanted members one after another; every member's name and kind is checked, wanted or not."""
    with _damage_as_message(archive):
        yield from (
            _zip_members(archive, wanted)
            if archive_kind(archive) == "zip"
            else _tar_members(archive, wanted)
        )


def _zip_members(archive: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as container:
        if len(container.infolist()) > MAX_FILES:
            raise _refused(archive, f"it holds more than {MAX_FILES} files")
        for info in container.infolist():
            _safe_path(archive, info.filename)
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise _refused(archive, f"{info.filename!r} in it is a link")
            if not info.is_dir() and matches(PurePosixPath(info.filename).name, wanted):
                yield info.filename, container.open(info)
            else:  # read all the same: damage may have changed its name
                with container.open(info) as data:
                    deque(_blocks(archive, data, MAX_BYTES), 0)


def _tar_members(archive: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, IO[bytes]]]:
    with _open_decompressed(archive) as file:
        raw, size = _BoundedReader(file), 0
        with tarfile.open(fileobj=raw, mode="r:") as stream:  # type: ignore[call-overload]
            for count, member in enumerate(stream):
                size += member.size
                if count >= MAX_FILES or size > MAX_BYTES:
                    raise _refused(
                        archive, f"it holds more than {MAX_FILES} files or {MAX_BYTES} bytes"
                    )
                _safe_path(archive, member.name)
                if not (member.isfile() or member.isdir()):
                    raise _refused(archive, f"{member.name!r} in it is a link or a device")
                if member.isfile() and matches(PurePosixPath(member.name).name, wanted):
                    data = stream.extractfile(member)
                    assert data is not None
                    yield member.name, data
            if raw.last != bytes(
                tarfile.BLOCKSIZE
            ):  # tarfile takes any block that is no header for the end
                raise tarfile.ReadError("what should be its end is none")
            deque(_blocks(archive, file, MAX_BYTES), 0)


@contextmanager
def _damage_as_message(archive: Path) -> Iterator[None]:
    """Whatever goes wrong while an archive is read, as a sentence that names it."""
    try:
        yield
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        OSError,
    ) as error:
        raise AnyshotError(
            f"The archive {archive} is damaged ({error}); fetch it again."
        ) from error
    except (
        RuntimeError,
        NotImplementedError,
        ValueError,
    ) as error:  # encrypted, or packed in a way unknown here
        raise _refused(archive, str(error)) from error


def _blocks(archive: Path, data: IO[bytes], most: int) -> Iterator[bytes]:
    """The bytes of a member, however many its header claims, up to a limit."""
    with _damage_as_message(archive):
        while block := data.read(2**20):
            most -= len(block)
            if most < 0:
                raise _refused(archive, f"it unpacks to more than {MAX_BYTES} bytes")
            yield block


def _open_decompressed(archive: Path) -> IO[bytes]:
    """A tar archive without its compression."""
    with open(archive, "rb") as file:
        head = file.read(6)
    for magic, module in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma)):
        if head.startswith(magic):
            return module.open(archive, "rb")
    return open(archive, "rb")


class _BoundedReader:
    """Refuses to read much at once, which only a forged header asks for: the memory would be filled."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.tell, self.seek = file, file.tell, file.seek
        self.last = b""  # what was read last

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= 2**25:
            raise ValueError(f"a header in it claims {size} bytes")
        self.last = self.file.read(size)
        return self.last


def _safe_path(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\0" in name
        or (path.parts and ":" in path.parts[0])
    ):
        raise _refused(archive, f"{name!r} in it would be written outside its folder")
    return path


def _refused(archive: Path, why: str) -> AnyshotError:
    return AnyshotError(f"The archive {archive} is refused: {why}.")


def _walk(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(root):  # links to folders are not followed
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            seen += 1
            if seen > 4 * MAX_FILES:
                raise AnyshotError(
                    f"{root} holds more than {4 * MAX_FILES} files; give the data set's own folder."
                )
            if not name.startswith(".") and path.is_file():
                yield path
