from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image
from support import colours, noise_png

from anyshot.classifier import backbones
from anyshot.classifier.web import uploads
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.uploads import THUMBNAIL_SIDE, Photo, UploadReader
from anyshot.data.decode import decode

# Reads files in two threads at once; prints the memory of the process at its peak and then, in MB.
PEAK = """
import re, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from anyshot.classifier.web.limits import Limits
from anyshot.classifier.web.uploads import UploadReader
from anyshot.core.parallel.threads import tune_process

tune_process()  # as the command line does: the allocator keeps what is freed
files = [Path(name).read_bytes() for name in sys.argv[1:]]
reader = UploadReader(lambda pixels: pixels.mean((1, 2)) + 1.0, side=224)
with ThreadPoolExecutor(2) as threads:
    list(threads.map(lambda data: reader.read("a", data, Limits()), files))
status = Path("/proc/self/status").read_text()
print(*(int(re.search(f"{key}:\\s*(\\d+)", status)[1]) // 1000 for key in ("VmHWM", "VmRSS")))
"""
# The images that need most memory: with transparency, and progressive without subsampling.
LARGEST = {
    "PNG": ("RGBA", 5000, {}),
    "JPEG": ("RGB", 7000, {"progressive": True, "subsampling": 0}),
}


def test_a_photo_holds_the_features_and_the_thumbnail(reader):
    file = noise_png(0, 3, side=40)
    photo = reader.read("a.png", file, Limits())
    pixels = decode(file, 8)
    np.testing.assert_array_equal(photo.content, colours(pixels[None])[0].astype(np.float32))
    assert Image.open(io.BytesIO(photo.thumbnail)).size == (THUMBNAIL_SIDE, THUMBNAIL_SIDE)


def test_a_heic_photo_is_read_within_the_limits(reader):
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (1500, 1000), "blue")).save(file)
    photo = reader.read("a.heic", file.getvalue(), Limits(megapixels=1))
    np.testing.assert_allclose(photo.content, colours(np.array([[[[0, 0, 255]]]]))[0], atol=12)
    with pytest.raises(RequestRefused, match=r"a\.heic.*1500x1000.*0 megapixels"):
        reader.read("a.heic", file.getvalue(), Limits(megapixels=0))


def test_features_that_are_not_finite_are_refused():
    reader = UploadReader(lambda pixels: np.full((len(pixels), 3), np.inf, np.float32), side=8)
    with pytest.raises(RequestRefused, match="not finite"):
        reader.read("a.png", noise_png(0, 0), Limits())


def test_too_many_pixels_are_refused_with_the_limit(reader):
    file = io.BytesIO()
    Image.new("1", (1500, 1000)).save(file, "PNG")
    reader.read("a.png", file.getvalue(), Limits(megapixels=2))
    with pytest.raises(RequestRefused, match=r"a\.png.*1500x1000.*1 megapixels"):
        reader.read("a.png", file.getvalue(), Limits(megapixels=1))


@pytest.mark.parametrize(("kind", "size"), [("JPEG", (8160, 6144)), ("HEIF", (8064, 6048))])
def test_photos_of_phones_in_their_full_size_are_within_the_limits(reader, kind, size):
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind)  # pillow-heif is registered by the reader
    assert reader.read("a", file.getvalue(), Limits()).thumbnail


def test_a_jpeg_may_have_three_times_as_many_pixels(reader):
    file = io.BytesIO()
    Image.new("L", (1500, 1000)).save(file, "JPEG")
    reader.read("a.jpg", file.getvalue(), Limits(megapixels=1))
    with pytest.raises(RequestRefused, match=r"a\.jpg.*1500x1000.*0 megapixels"):
        reader.read("a.jpg", file.getvalue(), Limits(megapixels=0))


@pytest.mark.parametrize(
    ("kind", "size", "accepted"),
    [
        ("PNG", (1000, 1000), True),
        ("PNG", (101, 9901), False),  # 1,000,001
        ("JPEG", (1000, 3000), True),
        ("JPEG", (1000, 3001), False),
    ],
)
def test_the_limit_of_pixels_is_exact(reader, kind, size, accepted):
    file = io.BytesIO()
    Image.new("L", size).save(file, kind)
    with nullcontext() if accepted else pytest.raises(RequestRefused, match=f"{size[1]}"):
        reader.read("a", file.getvalue(), Limits(megapixels=1))


def test_a_decompression_bomb_causes_no_warning(reader):
    file = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RequestRefused, match="10000x10000"):
            reader.read("a.png", file.getvalue(), Limits())
    assert caught == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_the_largest_images_take_less_than_a_gigabyte_for_a_moment(tmp_path):
    for kind, (mode, side, options) in LARGEST.items():
        Image.new(mode, (side, side)).save(tmp_path / kind, kind, **options)
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *(tmp_path / kind for kind in LARGEST)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    peak, afterwards = map(int, done.stdout.split())
    assert peak < 850  # with a real backbone 60 MB more
    assert afterwards < peak - 250


def test_the_size_of_a_photo_is_all_that_it_keeps():
    photo = Photo("1", "a", b"abc", np.zeros(5, np.float32), b"file")
    assert photo.size == 3 + 5 * 4 + 4


def test_code_of_a_run_that_is_the_backbone_is_not_executed(monkeypatch):
    trusted = []

    def open_backbone(source, *, side, device, trust_code):
        trusted.append(trust_code)
        return backbones.open_backbone(colours, side=8)

    monkeypatch.setattr(uploads, "open_backbone", open_backbone)
    UploadReader("conv4:run")
    UploadReader("conv4:run", trust_code=True)
    assert trusted == [False, True]
