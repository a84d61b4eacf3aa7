"""Read numeric arrays from MATLAB files of version 5 without trusting them.

A file is a header of 128 bytes and a list of elements. An element is a tag (type, number of bytes)
and data padded to eight bytes. A variable is an element that consists of elements: flags,
dimensions, name and numbers in Fortran order. SciPy's compiled reader trusts the lengths in a
damaged file and crashes, so it is not used.
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
STORED_TYPES = {
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4"},
    **{6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
ARRAY_CLASSES = {
    **{6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2"},
    **{11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"},
}
MATRIX, COMPRESSED = 14, 15


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the real numeric arrays of a file by name; damage raises ValueError."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError("it is larger than any data set of the catalogue")
    data = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None or struct.unpack(f"{order}H", data[124:126]) != (0x0100,):
        raise ValueError("it does not start like a MATLAB file of version 5")
    variables = {}
    for kind, element in _iterate_elements(data[128:], order, padded=False):
        if kind == COMPRESSED:
            ((kind, element),) = _iterate_elements(_inflate(element), order)
        if kind == MATRIX and (variable := _parse_variable(element, order)):
            variables[variable[0]] = variable[1]
    return variables


def _iterate_elements(
    data: memoryview, order: str, padded: bool = True
) -> Iterator[tuple[int, memoryview]]:
    """Yield (type, data) of each element; only compressed elements are not padded."""
    at = 0
    while at < len(data):
        if len(data) < at + 8:
            raise ValueError("it is truncated")
        kind, length = struct.unpack(f"{order}II", data[at : at + 8])
        begin = at + 8
        if kind >> 16:  # a small element: the first word has type and length, the second the data
            kind, length, begin = kind & 0xFFFF, kind >> 16, at + 4
        if length > len(data) - begin or (begin == at + 4 and length > 4):
            raise ValueError("it is truncated")
        yield kind, data[begin : begin + length]
        at = begin + length
        at += -at % 8 if padded or kind != COMPRESSED else 0


def _inflate(data: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    plain = stream.decompress(data, MAX_BYTES)
    if not stream.eof:  # zlib compares its checksum at the end
        raise ValueError(f"it is truncated, or a variable of it is larger than {MAX_BYTES} bytes")
    return memoryview(plain)


def _parse_variable(data: memoryview, order: str) -> tuple[str, NDArray[Any]] | None:
    """Return name and array of a variable; None for text, cells, sparse and complex arrays."""
    parts = _iterate_elements(data, order)
    flags, dimensions, name = (next(parts, (0, memoryview(b"")))[1] for _ in range(3))
    (word,) = struct.unpack(f"{order}I", flags[:4])
    array_class = ARRAY_CLASSES.get(word & 0xFF)
    is_complex = word & 0x0800
    if array_class is None or is_complex:
        return None
    shape = tuple(np.frombuffer(dimensions, f"{order}i4").tolist())
    kind, content = next(parts, (0, memoryview(b"")))
    if kind not in STORED_TYPES or not shape or min(shape) < 0:
        raise ValueError("a variable of it has no numbers or no shape")
    stored = np.dtype(order + STORED_TYPES[kind])
    if math.prod(shape) * stored.itemsize != len(content):
        raise ValueError(f"a variable of it claims {list(shape)} numbers in {len(content)} bytes")
    array = np.frombuffer(content, stored).reshape(shape, order="F").astype(array_class, copy=False)
    return bytes(name).decode("latin1"), array
