"""Arrays of numbers in MATLAB files of version 5, as `save` has written them since 1996, without trust.

A file is a header of 128 bytes and elements, each a tag (type, bytes) and data padded to eight bytes; a variable is an
element of elements: flags, dimensions, name, numbers in the order of Fortran. SciPy's compiled reader takes a damaged
file's word for how long things are, and crashes.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 2**30  # of one variable; SVHN's training images take 225 MB
NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}  # as stored
CLASSES = {
    6: "f8",
    7: "f4",
    8: "i1",
    9: "u1",
    10: "i2",
    11: "u2",
    12: "i4",
    13: "u4",
    14: "i8",
    15: "u8",
}  # as meant
MATRIX, COMPRESSED = 14, 15


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The real numeric arrays of a file by name; other variables are left out, and damage raises ValueError."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError("it is larger than any of the data sets")
    data = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None or struct.unpack(f"{order}H", data[124:126]) != (0x0100,):
        raise ValueError("it does not begin as a MATLAB file of version 5 does")
    found = {}
    for kind, element in _iterate_elements(data[128:], order, padded=False):
        if kind == COMPRESSED:
            ((kind, element),) = _iterate_elements(_inflate(element), order)
        if kind == MATRIX and (variable := _parse_variable(element, order)):
            found[variable[0]] = variable[1]
    return found


def _iterate_elements(
    data: memoryview, order: str, padded: bool = True
) -> Iterator[tuple[int, memoryview]]:
    """(type, data) of one element after another; compressed ones alone are not padded."""
    at = 0
    while at < len(data):
        if len(data) < at + 8:
            raise ValueError("it is cut off")
        kind, length = struct.unpack(f"{order}II", data[at : at + 8])
        begin = at + 8
        if (
            kind >> 16
        ):  # a small element: type and bytes share the first word, the data are in the second
            kind, length, begin = kind & 0xFFFF, kind >> 16, at + 4
        if length > len(data) - begin or (begin == at + 4 and length > 4):
            raise ValueError("it is cut off")
        yield kind, data[begin : begin + length]
        at = begin + length
        at += -at % 8 if padded or kind != COMPRESSED else 0


def _inflate(data: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    plain = stream.decompress(data, MAX_BYTES)
    if not stream.eof:  # also where the checksum is
        raise ValueError(f"it is cut off, or a variable of it is larger than {MAX_BYTES} bytes")
    return memoryview(plain)


def _parse_variable(data: memoryview, order: str) -> tuple[str, NDArray[Any]] | None:
    """Name and array of a variable; None for text, cells, sparse and complex ones."""
    parts = _iterate_elements(data, order)
    flags, dimensions, name = (next(parts, (0, memoryview(b"")))[1] for _ in range(3))
    (word,) = struct.unpack(f"{order}I", flags[:4])
    meant, is_complex = CLASSES.get(word & 0xFF), word & 0x0800
    if meant is None or is_complex:
        return None
    shape = tuple(np.frombuffer(dimensions, f"{order}i4").tolist())
    kind, content = next(parts, (0, memoryview(b"")))
    if kind not in NUMBERS or not shape or min(shape) < 0:
        raise ValueError("a variable of it has no numbers or no shape")
    stored = np.dtype(order + NUMBERS[kind])
    if math.prod(shape) * stored.itemsize != len(content):
        raise ValueError(
            f"a variable of it announces {list(shape)} numbers in {len(content)} bytes"
        )
    array = np.frombuffer(content, stored).reshape(shape, order="F").astype(meant, copy=False)
    return bytes(name).decode("latin1"), array
