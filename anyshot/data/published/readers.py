"""Readers of the containers in which data sets are published; none of them lets a file run code or fill the memory."""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshot.core.errors import AnyshotError
from anyshot.data.published.safe_matlab import read_arrays
from anyshot.data.published.safe_pickle import UnsafePickle, unpickle

MAX_BYTES = 2**28  # of one array in a file that is read whole; the largest of the nine takes 8 MB
Pixels = NDArray[np.uint8]


def damaged_file(path: Path, why: object) -> AnyshotError:
    """The sentence for a file that is not what its name promises."""
    why = " ".join(str(why).split())  # on one line
    return AnyshotError(
        f"The file {path} is damaged or not the official one ({why}); fetch it again."
    )


def check_integers(path: Path, what: str, values: Any, least: int, most: int) -> NDArray[np.int64]:
    """Labels or rows, int64 [n], each in least..most; anything else in their place is refused."""
    flat = isinstance(values, list | tuple) and all(
        isinstance(value, int | float | np.integer) for value in values
    )
    array = np.asarray(
        values if flat or isinstance(values, np.ndarray) else None
    )  # not of lists in lists in lists
    if array.ndim == 1 and array.size and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):  # NaN
            numbers = array.astype(np.int64)
        if (numbers == array).all() and least <= numbers.min() <= numbers.max() <= most:
            return numbers
    raise damaged_file(path, f"{what} are not all whole numbers from {least} to {most}")


# -------------------------------------------------------------------------------------------------- pickle
def read_pickle(path: Path) -> dict[str, Any]:
    """A pickled dictionary of lists, strings, numbers and integer arrays; anything else in it is refused unread."""
    try:
        with open(path, "rb") as file:
            content = unpickle(file)
    except UnsafePickle as error:
        raise damaged_file(path, error) from error
    except Exception as error:  # a malformed pickle raises almost anything
        raise damaged_file(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise damaged_file(path, f"it holds a {type(content).__name__}, not a dictionary")
    return {_to_string(key): value for key, value in content.items()}


def _to_string(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def to_strings(values: Any) -> list[str]:
    """Names as strings, whether they were pickled by Python 2 or 3; none where there is no list of names."""
    return (
        [_to_string(value) for value in values if isinstance(value, bytes | str)]
        if _is_many(values)
        else []
    )


def _is_many(values: Any) -> bool:
    return isinstance(values, list | tuple | dict)


# -------------------------------------------------------------------------------------------------- MATLAB
def read_mat(path: Path, *names: str) -> list[NDArray[Any]]:
    """Numeric variables of a MATLAB file (version 5)."""
    try:
        content = read_arrays(path)
    except Exception as error:  # a malformed file raises almost anything
        raise damaged_file(path, error) from error
    missing = [name for name in names if name not in content]
    if missing:
        raise damaged_file(path, f"there are no numbers {missing[0]!r} in it")
    return [content[name] for name in names]


# -------------------------------------------------------------------------------------------------- NumPy
ROWS = re.compile(
    rb"\{'descr': '\|?u1', 'fortran_order': False, 'shape': \((\d{1,9})L?, (\d{1,9})L?\),? ?\} *\n"
)


def read_rows(path: Path, most: int, width: int) -> Pixels:
    """The first rows, at most `most`, of a uint8 [n, width] array in a .npy file, which may be cut off after them."""
    try:
        with open(path, "rb") as file:
            magic, major, _ = struct.unpack("6sBB", file.read(8))
            length = int.from_bytes(file.read(2 if major == 1 else 4), "little")
            header = file.read(min(length, 1024))
            found = ROWS.fullmatch(header)  # this form only: nothing is evaluated
            if magic != b"\x93NUMPY" or not found or int(found[2]) != width or not int(found[1]):
                raise ValueError(f"its header {header[:60]!r} is not that of uint8 [n, {width}]")
            rows = min(int(found[1]), most)
            data = file.read(rows * width)
    except (OSError, ValueError, struct.error) as error:
        raise damaged_file(path, error) from error
    if len(data) < rows * width:
        raise damaged_file(path, "it is cut off")
    return np.frombuffer(data, np.uint8).reshape(rows, width)


# -------------------------------------------------------------------------------------------------- IDX
def read_idx(path: Path) -> Pixels:
    """The uint8 array of an IDX file, compressed by gzip or not."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            zero, kind, axes = struct.unpack(">HBB", file.read(4))
            if zero or kind != 8 or not 1 <= axes <= 3:
                raise ValueError("it does not begin as an IDX file of bytes does")
            shape = struct.unpack(f">{axes}I", file.read(4 * axes))
            size = math.prod(shape)
            if size > MAX_BYTES:
                raise ValueError(f"it announces {list(shape)}")
            data = file.read(size)
            if file.read(1):  # gzip compares its checksum at the end only
                raise ValueError(f"it goes on after the {list(shape)} that it announces")
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise damaged_file(path, error) from error
    if len(data) < size:
        raise damaged_file(path, "it is cut off")
    return np.frombuffer(data, np.uint8).reshape(shape)
