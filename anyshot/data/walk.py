"""List the files of a folder at any depth, in a fixed order, without endless loops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from anyshot.core.errors import DataError
from anyshot.core.text import readable

SYSTEM_FILES = {"thumbs.db", "desktop.ini"}  # that Windows adds to folders of photos


def walk_files(folder: Path, root: Path, skipped: list[tuple[str, str]]) -> Iterator[Path]:
    """Yield the regular files in `folder`, at any depth; hidden files and folders are ignored.

    Links to folders are followed once. Everything else is added to `skipped` as (path relative to
    `root`, reason): broken links, links that lead back, devices.
    """
    top = Path(os.path.realpath(root))
    seen = set(map(str, top.parents))
    if folder != root:
        seen.add(str(top))
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        real = os.path.realpath(current)
        if real in seen:
            name = readable(current.relative_to(root))
            skipped.append((name, "a link to a folder that was already read"))
            continue
        seen.add(real)
        for path in list_visible(current):
            if os.path.isdir(path):
                waiting.append(path)
            elif reason := reason_unusable(path):
                skipped.append((readable(path.relative_to(root)), reason))
            else:
                yield path


def list_visible(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted by name, without hidden ones and SYSTEM_FILES."""
    try:
        return sorted(path for path in folder.iterdir() if not _is_hidden(path.name))
    except OSError as error:
        raise DataError(
            f"Cannot read {folder}: {error.strerror}. Check its permissions."
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in SYSTEM_FILES


def reason_unusable(path: Path) -> str:
    """Return why a path is not a regular file, or an empty string if it is one."""
    try:
        if path.is_file():
            return ""
        return "a broken link" if path.is_symlink() else "not a regular file"
    except OSError as error:  # a link that points to itself
        return f"cannot be read ({error.strerror})"
