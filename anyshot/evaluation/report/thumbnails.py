"""Thumbnails of the photos on a page: in the page itself, or in a folder next to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from anyshot.core.files import os_errors_as_messages
from anyshot.data.decode import decode_all
from anyshot.data.encode import data_url, encode_image

SIDE = 120  # pixels of a thumbnail
EMBEDDED = 400  # thumbnails, about 3 MB; a page with more of them has a folder


def thumbnail_urls(page: Path, photos: Sequence[Path]) -> list[str]:
    """A URL for the thumbnail of each photo; empty if the file cannot be read any more.

    A page with at most EMBEDDED photos is a single file. A larger one, ``answers.html``, gets the
    folder ``answers_files``, from which the browser loads a thumbnail when it comes into view.
    """
    if len(photos) <= EMBEDDED:
        contents = _thumbnails(photos)
        return [data_url(content, "jpeg") if content else "" for content in contents]
    folder = page.with_name(f"{page.stem}_files")
    urls = []
    with os_errors_as_messages("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9]" * 5 + ".jpg"):  # of an earlier page
            old.unlink()
        for number, content in enumerate(_thumbnails(photos), 1):
            if content:
                (folder / f"{number:05d}.jpg").write_bytes(content)
            urls.append(f"{quote(folder.name)}/{number:05d}.jpg" if content else "")
    return urls


def _thumbnails(photos: Sequence[Path]) -> Iterator[bytes]:
    for pixels in decode_all(photos, SIDE):
        yield b"" if isinstance(pixels, str) else encode_image(pixels, "jpeg", quality=82)
