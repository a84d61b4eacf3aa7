from __future__ import annotations

import base64
import io
from urllib.parse import unquote

import pytest
from PIL import Image
from support import noise_png

from anyshot.evaluation.report import thumbnails
from anyshot.evaluation.report.thumbnails import SIDE, thumbnail_urls


@pytest.fixture
def photos(tmp_path):
    """Three photos; the second cannot be read."""
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(paths):
        path.write_bytes(b"broken" if i == 1 else noise_png(i, 0))
    return paths


def test_few_thumbnails_are_part_of_the_page(photos, tmp_path):
    first, broken, _ = thumbnail_urls(tmp_path / "page.html", photos)
    assert broken == ""
    data = base64.b64decode(first.removeprefix("data:image/jpeg;base64,"))
    assert Image.open(io.BytesIO(data)).size == (SIDE, SIDE)
    assert not (tmp_path / "page_files").exists()


def test_many_thumbnails_are_files_in_a_folder_next_to_the_page(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(thumbnails, "EMBEDDED", 2)
    page = tmp_path / "new" / "my #1 page.html"
    (page.parent / "my #1 page_files").mkdir(parents=True)
    (page.parent / "my #1 page_files" / "00009.jpg").write_bytes(b"of an earlier page")
    (page.parent / "my #1 page_files" / "mine.jpg").write_bytes(b"not ours")
    urls = thumbnail_urls(page, photos)
    assert urls[1] == ""
    assert "#" not in urls[0]  # would end the path
    for url in (urls[0], urls[2]):
        with Image.open(page.parent / unquote(url)) as image:
            assert image.size == (SIDE, SIDE)
    found = sorted(path.name for path in (page.parent / "my #1 page_files").iterdir())
    assert found == ["00001.jpg", "00003.jpg", "mine.jpg"]
