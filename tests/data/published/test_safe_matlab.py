from __future__ import annotations

import contextlib
import struct
import zlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from anyshot.data.published import safe_matlab
from anyshot.data.published.safe_matlab import read_arrays


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_are_those_that_scipy_reads(packed, tmp_path):
    rng = np.random.default_rng(0)
    kinds = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
    content = {f"a_{kind}": rng.integers(0, 100, (3, 5, 2)).astype(kind) for kind in kinds}
    content |= {
        "X": rng.integers(0, 256, (4, 4, 3, 7), np.uint8),
        "one": np.uint8([[7]]),
        "none": np.zeros((0, 3)),
    }
    others = {"text": "words", "cell": np.array([1, "x"], object), "complex": np.array([1 + 2j])}
    savemat(tmp_path / "m.mat", content | others, do_compression=packed)
    actual, known = read_arrays(tmp_path / "m.mat"), loadmat(tmp_path / "m.mat")
    assert set(actual) == set(content)
    for name, array in actual.items():
        assert array.dtype == known[name].dtype
        assert np.array_equal(array, known[name])


def big_endian(
    shape: tuple[int, ...], data: bytes, name: bytes = b"x", kind: int = 9, stored: int = 2
) -> bytes:
    """A big-endian file whose uint8 values are stored as `stored`."""

    def element(type_: int, content: bytes) -> bytes:
        return struct.pack(">II", type_, len(content)) + content + bytes(-len(content) % 8)

    small = struct.pack(">HH", len(name), 1) + name.ljust(4, b"\0")
    dimensions = element(5, struct.pack(f">{len(shape)}i", *shape))
    parts = element(6, struct.pack(">II", kind, 0)) + dimensions + small + element(stored, data)
    return b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI" + element(14, parts)


def test_either_order_of_bytes_and_smaller_storage_are_understood(tmp_path):
    (tmp_path / "m.mat").write_bytes(
        big_endian((2, 2), struct.pack(">4h", 1, 2, 3, 300), kind=6, stored=3)
    )
    assert read_arrays(tmp_path / "m.mat")["x"].tolist() == [[1.0, 3.0], [2.0, 300.0]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "does not start"),
        (b"MATLAB 7.3".ljust(124) + b"\0\2IM", "does not start"),
        (big_endian((2**30, 2**30), bytes(4)), "claims"),
        (big_endian((-1, -4), bytes(4)), "no shape"),
        (big_endian((), bytes(4)), "no shape"),
        (big_endian((2, 2), bytes(4), stored=99), "no numbers"),
        (big_endian((2, 2), bytes(4))[:-5], "truncated"),
        (big_endian((2, 2), bytes(4)) + b"\0\0\0", "truncated"),
    ],
)
def test_forged_or_truncated_files_are_refused(data, words, tmp_path):
    (tmp_path / "m.mat").write_bytes(data)
    with pytest.raises(ValueError, match=words):
        read_arrays(tmp_path / "m.mat")


def test_unpacked_bytes_are_limited(tmp_path, monkeypatch):
    savemat(tmp_path / "m.mat", {"x": np.zeros((1000, 1000), np.uint8)}, do_compression=True)
    monkeypatch.setattr(safe_matlab, "MAX_BYTES", 900_000)
    with pytest.raises(ValueError, match="larger than 900000 bytes"):
        read_arrays(tmp_path / "m.mat")
    monkeypatch.setattr(safe_matlab, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="larger than any"):
        read_arrays(tmp_path / "m.mat")


def test_no_damage_crashes_the_reader_and_compressed_numbers_are_never_others(tmp_path):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 256, (9, 9), np.uint8)
    for packed in (False, True):
        savemat(tmp_path / "m.mat", {"x": numbers}, do_compression=packed)
        good = (tmp_path / "m.mat").read_bytes()
        for _ in range(150):
            data = bytearray(good)
            data[rng.integers(126, len(data))] = rng.integers(256)
            (tmp_path / "m.mat").write_bytes(data)
            with contextlib.suppress(ValueError, zlib.error, struct.error):
                actual = read_arrays(tmp_path / "m.mat").get("x", numbers)
                assert not packed or np.array_equal(actual, numbers)
