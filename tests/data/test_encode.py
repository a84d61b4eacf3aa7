from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from anyshot.data.encode import data_url, encode_image

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def test_png_keeps_every_pixel():
    content = base64.b64decode(
        data_url(encode_image(PIXELS)).removeprefix("data:image/png;base64,")
    )
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "PNG"
        np.testing.assert_array_equal(np.asarray(image), PIXELS)


def test_jpeg_takes_a_quality():
    low, high = (encode_image(PIXELS, "jpeg", quality=quality) for quality in (10, 95))
    with Image.open(io.BytesIO(high)) as image:
        assert (image.format, image.size) == ("JPEG", (7, 5))
    assert len(low) < len(high)
