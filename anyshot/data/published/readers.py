"""Read the file formats of published data sets. No file can run code or fill the memory."""

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

from anyshot.core.errors import DataError
from anyshot.data.published.safe_matlab import read_arrays
from anyshot.data.published.safe_pickle import UnsafePickle, unpickle

MAX_BYTES = 2**28  # of one array; the largest one of the catalogue takes 8 MB
Pixels = NDArray[np.uint8]


def damaged_file_error(path: Path, reason: object) -> DataError:
    """Return the error for a file that does not have the expected content."""
    reason = " ".join(str(reason).split())  # on one line
    return DataError(
        f"The file {path} is damaged or not the official one ({reason}); download it again."
    )


def check_integers(path: Path, what: str, values: Any, least: int, most: int) -> NDArray[np.int64]:
    """Convert labels or row numbers to int64 [n]; refuse all but integers from least to most."""
    flat = isinstance(values, list | tuple) and all(
        isinstance(value, int | float | np.integer) for value in values
    )
    # nested lists become an array without dimensions
    array = np.asarray(values if flat or isinstance(values, np.ndarray) else None)
    if array.ndim == 1 and array.size and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):  # NaN
            numbers = array.astype(np.int64)
        if (numbers == array).all() and least <= numbers.min() <= numbers.max() <= most:
            return numbers
    raise damaged_file_error(path, f"{what} are not all integers from {least} to {most}")


def check_pixels(path: Path, what: str, values: Any, shape: tuple[int, ...]) -> Pixels:
    """Return uint8 images [n, *shape]; refuse anything else."""
    is_pixels = isinstance(values, np.ndarray) and values.dtype == np.uint8
    if not is_pixels or values.shape[1:] != shape:
        expected = ", ".join(map(str, ("n", *shape)))
        raise damaged_file_error(path, f"{what} is not uint8 [{expected}]")
    return values


# -------------------------------------------------------------------------------- pickle
def read_pickle(path: Path) -> dict[str, Any]:
    """Read a pickled dictionary of lists, strings, numbers and integer arrays; refuse all else."""
    try:
        with open(path, "rb") as file:
            content = unpickle(file)
    except UnsafePickle as error:
        raise damaged_file_error(path, error) from error
    except Exception as error:  # a malformed pickle raises almost anything
        raise damaged_file_error(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise damaged_file_error(path, f"it holds a {type(content).__name__}, not a dictionary")
    return {_to_string(key): value for key, value in content.items()}


def _to_string(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def to_strings(values: Any) -> list[str]:
    """Convert names that were pickled by Python 2 or 3; return [] if `values` is not a list."""
    return (
        [_to_string(value) for value in values if isinstance(value, bytes | str)]
        if _is_many(values)
        else []
    )


def _is_many(values: Any) -> bool:
    return isinstance(values, list | tuple | dict)


# -------------------------------------------------------------------------------- MATLAB
def read_mat(path: Path, *names: str) -> list[NDArray[Any]]:
    """Return numeric variables of a MATLAB file (version 5)."""
    try:
        content = read_arrays(path)
    except Exception as error:  # a malformed file raises almost anything
        raise damaged_file_error(path, error) from error
    missing = [name for name in names if name not in content]
    if missing:
        raise damaged_file_error(path, f"it has no numeric variable {missing[0]!r}")
    return [content[name] for name in names]


# -------------------------------------------------------------------------------- NumPy
ROWS = re.compile(
    rb"\{'descr': '\|?u1', 'fortran_order': False, 'shape': \((\d{1,9})L?, (\d{1,9})L?\),? ?\} *\n"
)


def read_rows(path: Path, most: int, width: int) -> Pixels:
    """Read up to `most` rows of a uint8 [n, width] array from a .npy file or its beginning."""
    try:
        with open(path, "rb") as file:
            magic, major, _ = struct.unpack("6sBB", file.read(8))
            length = int.from_bytes(file.read(2 if major == 1 else 4), "little")
            header = file.read(min(length, 1024))
            match = ROWS.fullmatch(header)  # only this form is accepted; nothing is evaluated
            if magic != b"\x93NUMPY" or not match or int(match[2]) != width or not int(match[1]):
                raise ValueError(f"its header {header[:60]!r} is not that of uint8 [n, {width}]")
            rows = min(int(match[1]), most)
            data = file.read(rows * width)
    except (OSError, ValueError, struct.error) as error:
        raise damaged_file_error(path, error) from error
    if len(data) < rows * width:
        raise damaged_file_error(path, "it is truncated")
    return np.frombuffer(data, np.uint8).reshape(rows, width)


# -------------------------------------------------------------------------------- IDX
def read_idx(path: Path) -> Pixels:
    """Read the uint8 array of an IDX file, compressed by gzip or not."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            zero, kind, axes = struct.unpack(">HBB", file.read(4))
            if zero or kind != 8 or not 1 <= axes <= 3:
                raise ValueError("it does not start like an IDX file of bytes")
            shape = struct.unpack(f">{axes}I", file.read(4 * axes))
            size = math.prod(shape)
            if size > MAX_BYTES:
                raise ValueError(f"it announces {list(shape)}")
            data = file.read(size)
            if file.read(1):  # gzip compares its checksum at the end only
                raise ValueError(f"it continues after the announced {list(shape)}")
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise damaged_file_error(path, error) from error
    if len(data) < size:
        raise damaged_file_error(path, "it is truncated")
    return np.frombuffer(data, np.uint8).reshape(shape)
