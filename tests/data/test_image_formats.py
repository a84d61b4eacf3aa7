from __future__ import annotations

import io
import logging
import struct
import sys
import zlib

import numpy as np
import pillow_heif
import pytest
import tifffile
from PIL import Image

from anyshot.data import image_formats
from anyshot.data.decode import decode
from anyshot.data.image_formats import UnreadableImage, scale_to_bytes


def quarters(side: int = 64) -> Image.Image:
    """Red, green, blue and white quarters."""
    pixels = np.zeros((side, side, 3), np.uint8)
    half = side // 2
    pixels[:half, :half, 0] = pixels[:half, half:, 1] = pixels[half:, :half, 2] = 255
    pixels[half:, half:] = 255
    return Image.fromarray(pixels)


def heic(image: Image.Image, **options) -> bytes:
    file = io.BytesIO()
    pillow_heif.from_pillow(image).save(file, quality=90, **options)
    return file.getvalue()


def tiff(values: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    options.setdefault("photometric", "rgb" if values.shape[2:] in ((3,), (4,)) else "minisblack")
    tifffile.imwrite(file, values, **options)
    return file.getvalue()


def ramp(white: float, dtype: type, channels: int) -> np.ndarray:
    """Black on the left, white on the right; a fourth channel is opaque."""
    grey = np.linspace(0, white, 32).astype(dtype)
    values = np.tile(grey[:, None], (32, 1, channels))
    values[..., 3:] = np.array(white).astype(dtype)
    return values[..., 0] if channels == 1 else values


@pytest.fixture
def no_extra(monkeypatch):
    """Hides the packages of the extra photos."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setitem(sys.modules, "tifffile", None)
    for name in ("OPEN", "ID"):
        registered = {k: v for k, v in Image.OPEN.items() if k != "HEIF"}
        monkeypatch.setattr(Image, name, registered if name == "OPEN" else list(registered))
    image_formats.available_formats.cache_clear()
    yield
    image_formats.available_formats.cache_clear()


def test_a_heic_photo_has_the_pixels_that_were_saved():
    pixels = decode(heic(quarters()), 64).astype(int)
    expected = np.asarray(quarters(), int)
    assert np.abs(pixels - expected)[4:28, 4:28].max() < 12
    assert np.abs(pixels - expected).mean() < 8


def test_a_heic_photo_is_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise: the lower left quarter comes to the top left
    file = io.BytesIO()
    image_formats.available_formats()
    quarters().save(file, "HEIF", quality=90, exif=exif.tobytes())
    pixels = decode(file.getvalue(), 32)
    assert pixels[8, 8, 2] > 200
    assert pixels[8, 24, 0] > 200


def test_a_heic_photo_with_another_thumbnail_is_read_itself():
    data = heic(quarters(512), thumbnails=[256])
    with Image.open(io.BytesIO(data)) as image:
        image.draft(None, (64, 64))
        if image.size != (256, 256):  # Pillow would read the thumbnail
            pytest.skip("this version of pillow-heif reads no thumbnails")
    sizes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anyshot.data.decode.to_rgb", lambda image: sizes.append(image.size) or image)
        decode(data, 16, crop=False)
    assert sizes[0] == (512, 512)


def patch_size(data: bytes, width: int, height: int) -> bytes:
    """The same HEIC file with another size in its header."""
    at = data.index(b"ispe") + 8
    return data[:at] + struct.pack(">II", width, height) + data[at + 8 :]


def test_a_heic_bomb_is_refused_by_its_header_and_by_its_content():
    data = heic(quarters(512))
    with pytest.raises(UnreadableImage, match="9300x9300"):
        decode(patch_size(data, 9_300, 9_300), 16)
    with pytest.raises(UnreadableImage, match="damaged"):  # libheif compares with the content
        decode(patch_size(data, 64, 64), 16)


@pytest.mark.parametrize("end", [100, 400])
def test_a_damaged_heic_photo_says_so(end):
    with pytest.raises(UnreadableImage, match="damaged"):
        decode(heic(quarters())[:end], 16)


def test_a_damaged_tiff_says_so_and_prints_nothing_else(capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's would take the messages
    with pytest.raises(UnreadableImage, match=r"damaged TIFF.*raw file"):
        decode(b"II*\0" + b"0" * 100, 16)
    assert capfd.readouterr().err == ""


def test_a_video_is_named():
    with pytest.raises(UnreadableImage, match="video"):
        decode(b"\0\0\0\x14ftypqt  " + bytes(40), 16)


def test_without_the_extra_a_heic_photo_is_refused_with_the_extra(no_extra):
    with pytest.raises(UnreadableImage, match=r"HEIC.*anyshot\[photos\]"):
        decode(heic(quarters()), 16)


@pytest.mark.parametrize(
    "values", [ramp(4095, np.uint16, 3), ramp(1, np.float32, 3), ramp(1, np.float64, 1)]
)
def test_without_the_extra_a_deep_tiff_is_refused_with_the_extra(no_extra, values):
    with pytest.raises(UnreadableImage, match=r"TIFF.*anyshot\[photos\]"):
        decode(tiff(values), 16)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    ("white", "dtype"),
    [
        (65535, np.uint16),
        (4095, np.uint16),
        (2**32 - 1, np.uint32),
        (4095, np.int16),
        (1, np.float16),
        (1, np.float32),
        (1, np.float64),
        (65535, np.float32),
    ],
)
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_deep_tiffs_keep_their_colours(channels, white, dtype, compression):
    data = tiff(ramp(white, dtype, channels), compression=compression)
    pixels = decode(data, 32)[16].astype(int)
    assert np.abs(pixels - np.linspace(0, 255, 32)[:, None]).max() < 2


def test_channels_in_separate_planes_and_white_as_zero():
    planes = np.moveaxis(ramp(4095, np.uint16, 3), 2, 0).copy()
    planes[1:] = 0
    data = tiff(planes, photometric="rgb", planarconfig="separate")
    assert decode(data, 32)[16, 31].tolist() == [255, 0, 0]
    inverted = tiff(ramp(1, np.float64, 1), photometric="miniswhite")
    assert decode(inverted, 32)[16, 31].tolist() == [0, 0, 0]


def test_negative_values_are_scaled_by_the_range_of_the_image():
    scan = np.linspace(-1000, 3000, 33)[None].repeat(33, 0)
    for dtype in (np.float32, np.int16):
        row = decode(tiff(scan.astype(dtype)), 33)[16, :, 0].astype(int)
        assert np.abs(row - np.linspace(0, 255, 33)).max() < 2
    values = np.array([[-1.0, 0, np.nan, np.inf, 1]])
    assert scale_to_bytes(values).tolist() == [[0, 127, 127, 127, 255]]


def with_tags(data: bytes, **values: int) -> bytes:
    """The same TIFF with other values of tags of its first page."""
    changed = bytearray(data)
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        for name, value in values.items():
            tag = file.pages[0].tags[name]
            packed = struct.pack("<H" if tag.dtype == 3 else "<I", value)
            changed[tag.valueoffset : tag.valueoffset + len(packed)] = packed
    return bytes(changed)


def with_strip(data: bytes, strip: bytes, **values: int) -> bytes:
    return with_tags(data, StripOffsets=len(data), StripByteCounts=len(strip), **values) + strip


def packbits(values: np.ndarray) -> bytes:
    """An RGB TIFF in one strip with PackBits compression, in runs of 64 literal bytes."""
    raw = values.tobytes()
    runs = b"".join(b"\x3f" + raw[i : i + 64] for i in range(0, len(raw), 64))
    return with_strip(tiff(values), runs, Compression=32773)


def test_a_compressed_tiff_of_16_bits_is_read_and_one_of_12_bits_is_refused():
    assert decode(packbits(ramp(65535, np.uint16, 3)), 32)[16, 31].tolist() == [255] * 3
    with pytest.raises(UnreadableImage, match="uint16 values with PACKBITS compression"):
        decode(packbits(ramp(4095, np.uint16, 3)), 32)
    with pytest.raises(UnreadableImage, match="float32 values with PACKBITS compression"):
        decode(packbits(ramp(1, np.float32, 3)), 32)


def test_a_deflate_bomb_is_refused():
    data = tiff(np.zeros((32, 32, 3), np.uint16), compression="zlib")
    with pytest.raises(UnreadableImage, match="bomb"):
        decode(with_strip(data, zlib.compress(bytes(50_000_000), 9)), 16)


def test_a_tiff_that_claims_too_many_pixels_or_channels_is_refused():
    data = tiff(np.zeros((32, 32, 3), np.uint16))
    with pytest.raises(UnreadableImage, match=r"too large .30000x30000"):
        decode(with_tags(data, ImageWidth=30_000, ImageLength=30_000), 16)
    with pytest.raises(UnreadableImage, match="5 channels of float32"):
        decode(tiff(np.zeros((16, 16, 5), np.float32), planarconfig="contig"), 16)
