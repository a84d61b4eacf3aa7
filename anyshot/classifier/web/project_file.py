"""The project file: a zip of all photos in folders of their classes, and ``project.json``.

The page itself opens project files (``static/project.js``) and uploads their photos one by one, so
they pass the same checks as any upload. The server never reads a zip file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from anyshot.classifier.web.arrangement import Arrangement
from anyshot.classifier.web.uploads import Photo

FORMAT = "anyshot project 1"
UNLABELLED = "to classify"  # the folder of photos without a class
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)  # names of Windows' devices


def project_zip(now: Arrangement, photos: Mapping[str, Photo]) -> Iterator[bytes]:
    """Yield the parts of the zip file; no more than one photo is copied at a time.

    A photo whose file was not kept is saved as the square of 320 pixels that the page shows.
    """
    out = _Parts()
    rows: list[dict[str, Any]] = []
    classes = [{"name": g.name, "used": len(g.support)} for g in now.groups.values()]
    with zipfile.ZipFile(out, "w") as archive:
        confirmed = {p for p, key in now.confirmed if key in now.groups and p in now.photos_of(key)}
        for folder, index, ids in _folders(now):
            for photo in (photos[key] for key in ids):
                path = f"{folder}/{len(rows) + 1:05d} {_file_name(photo)}"
                archive.writestr(path, photo.file or photo.thumbnail)
                rows.append({"file": path, "name": photo.name, "class": index})
                if photo.id in confirmed:
                    rows[-1]["confirmed"] = True
                yield out.take()
        project = {
            "format": FORMAT,
            "classes": classes,
            "photos": rows,
            "as_given": now.as_given,
            "threshold": now.threshold,
        }
        archive.writestr("project.json", json.dumps(project, ensure_ascii=False, indent=1))
    yield out.take()


def _folders(now: Arrangement) -> Iterator[tuple[str, int | None, tuple[str, ...]]]:
    """Folder, number of the class (None: no class) and photos.

    A folder has the name of its class, after a number if the name cannot be that of a folder.
    """
    taken = {group.name.casefold() for group in now.groups.values()}
    for index, group in enumerate(now.groups.values()):
        folder = _safe(group.name)
        if folder != group.name or folder.startswith(".") or RESERVED.fullmatch(folder):
            folder = f"{index + 1:02d} {folder}"
            while folder.casefold() in taken:
                folder += "_"
            taken.add(folder.casefold())
        yield f"classes/{folder}", index, group.photos
    yield UNLABELLED, None, now.pool


def _file_name(photo: Photo) -> str:
    """A name with the ending of its content."""
    name = _safe(photo.name)
    return name if photo.file else f"{name.rpartition('.')[0] or name}.jpg"


def _safe(name: str) -> str:
    """A name that is a single part of a path on all systems.

    >>> _safe("../red: a/b")
    '.._red_ a_b'
    """
    return re.sub(r"[^\w .()+-]", "_", name).rstrip(". ")[-80:] or "_"


class _Parts(io.RawIOBase):
    """A file that zipfile writes to and that is read in parts."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """What was written since the last call."""
        data = b"".join(self.parts)
        self.parts.clear()
        return data
