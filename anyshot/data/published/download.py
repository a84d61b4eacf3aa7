"""Downloads that resume where they broke off, are verified by their MD5 sum, and appear under their name only whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from pathlib import Path

from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.progress import progress
from anyshot.data.published.dataset import RemoteFile

BLOCK = 2**18
MAX_BYTES = 6 * 2**30
TIMEOUT = 30  # seconds without a byte


def fetch(remote: RemoteFile, folder: Path) -> Path:
    """Bring an official file into `folder`, or find it there from an earlier time."""
    target = folder / remote.file
    if target.is_file():
        return target
    with os_errors_as_messages("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{remote.file}.part"
    try:
        _receive(remote, part)
    except (OSError, http.client.HTTPException) as error:
        raise AnyshotError(
            f"{remote.url} cannot be downloaded ({getattr(error, 'reason', error)}); try again to resume, or fetch the "
            f"file yourself and put it into {folder}, or name it with --source."
        ) from error
    if remote.md5 and (found := md5_of(part)) != remote.md5:
        part.unlink()
        raise AnyshotError(
            f"{remote.url} gave a file with the MD5 sum {found}, not the published {remote.md5}; it was deleted."
        )
    os.replace(part, target)
    return target


def _receive(remote: RemoteFile, part: Path) -> None:
    done = part.stat().st_size if part.exists() else 0
    if remote.first_bytes is not None and done >= remote.first_bytes:
        return
    headers = {"User-Agent": "anyshot", "Accept-Encoding": "identity"}
    if done or remote.first_bytes is not None:
        headers["Range"] = (
            f"bytes={done}-{'' if remote.first_bytes is None else remote.first_bytes - 1}"
        )
    request = urllib.request.Request(remote.url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and done:  # nothing is left to send: the part is the whole
            return
        raise
    with response:
        if response.status != 206:  # the server sends all of it from the start
            done = 0
        _store(response, part, done, remote)


def _store(response: http.client.HTTPResponse, part: Path, done: int, remote: RemoteFile) -> None:
    length = response.headers.get("Content-Length")
    total = remote.first_bytes or (done + int(length) if length else None)
    most = remote.first_bytes or MAX_BYTES
    with (
        open(part, "r+b" if done else "wb") as file,
        progress(f"Fetching {remote.file} (kB)", _kilo(total)) as advance,
    ):
        file.seek(done)
        advance(_kilo(done) or 0)
        while done < most and (block := response.read(min(BLOCK, most - done))):
            with os_errors_as_messages("write", part):
                file.write(block)
            done += len(block)
            advance(len(block) // 1000)
    if length and total and done < total:
        raise OSError(f"the connection broke after {done} of {total} bytes")


def md5_of(path: Path) -> str:
    """The MD5 sum of a file: published sums are MD5; they tell damage, not malice."""
    md5 = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            md5.update(block)
    return md5.hexdigest()


def _kilo(count: int | None) -> int | None:
    return None if count is None else count // 1000
