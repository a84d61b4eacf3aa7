"""Encode pixels as image files and as data URLs for HTML pages."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def encode_image(pixels: NDArray[np.uint8], kind: str = "png", **options: Any) -> bytes:
    """The content of an image file for ``pixels`` [height, width] or [height, width, 3].

    ``kind`` is "png" or "jpeg"; ``options`` go to Pillow, for instance ``quality=85``.
    """
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def data_url(content: bytes, kind: str = "png") -> str:
    """The content of an image file as a URL that a page can hold.

    >>> data_url(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
