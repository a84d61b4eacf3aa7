from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from anyshot.core.errors import SettingsError
from anyshot.data import decode as decode_module
from anyshot.data.decode import decode, decode_all
from anyshot.data.image_formats import UnreadableImage


def encode_image(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def halves(width: int = 60, height: int = 40) -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


def png_header_of(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_a_wide_picture_is_resized_by_its_short_side_and_cropped_in_the_centre():
    pixels = decode(encode_image(halves(200, 40)), 20)
    assert pixels.shape == (20, 20, 3)
    assert pixels.dtype == np.uint8
    assert pixels[10, 2].tolist() == [255, 0, 0]
    assert pixels[10, 17].tolist() == [0, 0, 255]


def test_exif_rotation_is_undone():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright: the left half comes on top
    pixels = decode(encode_image(halves(), "JPEG", exif=exif, quality=95), 20)
    assert pixels[2, 10, 0] > 200
    assert pixels[17, 10, 2] > 200


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"]
)
def test_every_mode_becomes_the_same_grey(mode):
    if mode in ("I;16", "I"):
        image = Image.fromarray(np.full((30, 30), 65535, np.uint16 if mode == "I;16" else np.int32))
    elif mode == "F":
        image = Image.fromarray(np.full((30, 30), 255, np.float32))
    else:
        image = Image.new("L", (30, 30), 255).convert(mode)
    # Pillow before 13, the last for Python 3.10, cannot read its own TIFF of YCbCr
    kind = {"YCbCr": "JPEG", "CMYK": "TIFF", "F": "TIFF", "I": "TIFF"}.get(mode, "PNG")
    assert (decode(encode_image(image, kind), 16) >= 250).all()


def test_sixteen_bit_greys_keep_their_contrast():
    ramp = np.tile(np.linspace(0, 65535, 32).astype(np.uint16), (32, 1))
    pixels = decode(encode_image(Image.fromarray(ramp)), 32)
    assert pixels[16, 16, 0] == pytest.approx(131, abs=4)


@pytest.mark.parametrize(("white", "dtype"), [(4095, np.uint16), (1.0, np.float32)])
def test_twelve_bit_and_float_greys_are_not_black(white, dtype):
    ramp = np.tile(np.linspace(0, white, 32).astype(dtype), (32, 1))
    pixels = decode(encode_image(Image.fromarray(ramp), "TIFF"), 32)
    assert pixels[16, 16, 0] == pytest.approx(131, abs=4)
    assert pixels[16, 31, 0] == pytest.approx(255, abs=4)


def test_transparent_parts_become_white():
    image = Image.new("RGBA", (20, 20), (10, 20, 30, 0))
    assert (decode(encode_image(image), 8) == 255).all()
    palette = Image.new("RGB", (20, 20), (10, 20, 30)).quantize(4)
    assert (decode(encode_image(palette, transparency=palette.getpixel((0, 0))), 8) == 255).all()


def test_an_animation_gives_its_first_picture():
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP"):
        data = encode_image(frames[0], kind, save_all=True, append_images=frames[1:])
        pixels = decode(data, 8)
        assert pixels[4, 4, 0] > 240
        assert pixels[4, 4, 2] < 10


def noise(side: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_image(halves(1, 1)), "too small .1x1"),
        (encode_image(halves(500, 2)), "too small .500x2"),
        (b"just some words", "not an image"),
        (b"", "an empty file"),
        (b"II*\0\x10\0\0\0CR" + bytes(500), "raw file"),
        (encode_image(noise(64), "JPEG")[:1500], "damaged"),
        (encode_image(noise(64))[:5000], "damaged"),
        (png_header_of(20_000, 20_000), "too large"),
        (png_header_of(9_000, 9_000), "too large .9000x9000"),
        (png_header_of(12_000, 12_000), "too large"),
        (png_header_of(100, 100), "damaged"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
def test_undecodable_file_gets_a_reason(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        decode(data, 16)


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(monkeypatch):
    sizes = []

    def resize(image, side):
        sizes.append(image.size)
        return np.zeros((side, side, 3), np.uint8)

    monkeypatch.setattr(decode_module, "resize_and_crop", resize)
    for kind in ("JPEG", "PNG"):
        file = io.BytesIO()
        Image.new("RGB", (1600, 800)).save(file, kind)
        decode_module.decode(file.getvalue(), 16)
    assert sizes == [(200, 100), (1600, 800)]


def test_many_files_come_back_in_order_with_their_reasons():
    files = [encode_image(Image.new("L", (8, 8), n % 256)) if n % 7 else b"?" for n in range(600)]
    results = list(decode_all(files, 4))
    assert len(results) == 600
    for n, result in enumerate(results):
        if n % 7:
            assert result[0, 0, 0] == n % 256
        else:
            assert result == "not an image"


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_box_is_cut_out_and_resized_as_a_whole(kind):
    pixels = np.zeros((300, 400, 3), np.uint8)
    pixels[100:150, 100:300] = [255, 0, 0]
    pixels[100:150, 280:300] = [0, 0, 255]  # the last tenth of a wide box
    data = encode_image(
        Image.fromarray(pixels), kind, **({"quality": 95} if kind == "JPEG" else {})
    )
    cut = decode(data, 20, box=(100, 100, 300, 150), crop=False).astype(int)
    assert np.abs(cut[5:15, 2:15] - [255, 0, 0]).max() < 20
    assert np.abs(cut[5:15, 19] - [0, 0, 255]).max() < 40
    whole = decode(data, 20, crop=False)
    assert (whole[:5] < 20).all()


def test_a_box_is_clipped_to_the_image_and_one_outside_is_refused():
    data = encode_image(halves())
    assert (decode(data, 8, box=(30, 0, 999, 999))[:, :, 2] == 255).all()
    with pytest.raises(UnreadableImage, match=r"70, 0, 80, 9"):
        decode(data, 8, box=(70, 0, 80, 9))


def test_each_file_has_its_box(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encode_image(halves()))
    (right,) = decode_all([path], 8, boxes={path: (30, 0, 60, 40)})
    assert (right == [0, 0, 255]).all()


def tiff_of_12_bits(value: int, side: int = 8) -> bytes:
    """A grey TIFF with two pixels packed into three bytes."""
    packed = struct.pack(">I", value << 12 | value)[1:] * (side * side // 2)
    tags = [
        (256, side),
        (257, side),
        (258, 12),
        (259, 1),
        (262, 1),
        (273, 8 + 2 + 9 * 12 + 4),
        (277, 1),
        (278, side),
        (279, len(packed)),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, number) for tag, number in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + packed


def test_greys_of_12_bits_keep_their_brightness():
    assert decode(tiff_of_12_bits(2048), 8)[4, 4, 0] == pytest.approx(127, abs=2)
    wide = Image.fromarray(np.full((8, 8), 2048, np.uint16))
    data = encode_image(wide, "TIFF", tiffinfo={281: 4095})  # 12 bits stored in 16
    assert decode(data, 8)[4, 4, 0] == pytest.approx(127, abs=2)


@pytest.mark.parametrize(("value", "grey"), [(0.5, 127), (1.0, 255), (100.0, 100), (32768.0, 127)])
def test_float_images_are_read_in_the_range_that_fits(value, grey):
    image = Image.fromarray(np.full((8, 8), value, np.float32))
    assert decode(encode_image(image, "TIFF"), 8)[4, 4, 0] == pytest.approx(grey, abs=1)


@pytest.mark.parametrize("side", [0, -4, 100_000])
def test_a_side_out_of_range_is_refused_before_memory_is_taken(side):
    with pytest.raises(SettingsError, match=str(side)):
        decode(encode_image(halves()), side)
