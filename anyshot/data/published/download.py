"""Download official files: resumed after an interruption, checked by MD5, complete or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from anyshot.core.errors import DataError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.progress import progress
from anyshot.data.published.dataset import RemoteFile

BLOCK = 2**18
MAX_BYTES = 6 * 2**30
TIMEOUT = 30  # seconds without a byte


def fetch(remote: RemoteFile, folder: Path) -> Path:
    """Download an official file into `folder`, unless it is there, and return its path."""
    target = folder / remote.file
    if target.is_file():
        return target
    with os_errors_as_messages("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{remote.file}.part"
    try:
        _receive(remote, part)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"Cannot download {remote.url} ({getattr(error, 'reason', error)}). Try again to "
            f"resume, or download the file yourself and put it into {folder} or give it with "
            "--source."
        ) from error
    if remote.md5 and (md5 := md5_of(part)) != remote.md5:
        part.unlink()
        raise DataError(
            f"The file from {remote.url} has the MD5 checksum {md5}, not the published "
            f"{remote.md5}; it was deleted."
        )
    os.replace(part, target)
    return target


def _receive(remote: RemoteFile, part: Path) -> None:
    done = part.stat().st_size if part.exists() else 0
    if remote.first_bytes is not None and done >= remote.first_bytes:
        return
    headers = {"User-Agent": "anyshot", "Accept-Encoding": "identity"}
    if done or remote.first_bytes is not None:
        last = "" if remote.first_bytes is None else remote.first_bytes - 1
        headers["Range"] = f"bytes={done}-{last}"
    request = urllib.request.Request(remote.url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and done:  # range not satisfiable: the part is the whole file
            return
        raise
    with response:
        if response.status != 206:  # the server ignores ranges and sends the whole file
            done = 0
        _save(response, part, done, remote)


def _save(response: http.client.HTTPResponse, part: Path, done: int, remote: RemoteFile) -> None:
    length = response.headers.get("Content-Length")
    total = remote.first_bytes or (done + int(length) if length else None)
    limit = remote.first_bytes or MAX_BYTES
    kilobytes = None if total is None else total // 1000
    with (
        open(part, "r+b" if done else "wb") as file,
        progress(f"Fetching {remote.file} (kB)", kilobytes) as advance,
    ):
        file.seek(done)
        advance(done // 1000)
        while done < limit and (block := response.read(min(BLOCK, limit - done))):
            with os_errors_as_messages("write", part):
                file.write(block)
            done += len(block)
            advance(len(block) // 1000)
    if length and total and done < total:
        raise OSError(f"the connection broke after {done} of {total} bytes")


def md5_of(path: Path) -> str:
    """Return the MD5 checksum of a file; published checksums are MD5 and detect damage only."""
    md5 = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            md5.update(block)
    return md5.hexdigest()
