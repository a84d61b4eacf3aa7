from __future__ import annotations

import builtins
import contextlib
import gzip
import itertools
import os
import pickle
import struct

import numpy as np
import pytest
from scipy.io import savemat

from anyshot.core.errors import DataError
from anyshot.data.published.readers import (
    check_integers,
    read_idx,
    read_mat,
    read_pickle,
    read_rows,
    to_strings,
)


class Runs:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


TYPE = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"


def python2_pickle() -> bytes:
    """{'data': uint8 [2, 3], 'fine_labels': [7], 'name': 'x'} as pickled by Python 2."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        b"(K\x01(K\x02K\x03tcnumpy\ndtype\n("
        + text(b"u1")
        + b"K\x00K\x01tR(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + text(bytes([1, 2, 3, 250, 251, 252]))
        + b"tb"
    )
    return (
        b"\x80\x02}("
        + text(b"data")
        + array
        + text(b"fine_labels")
        + b"]K\x07a"
        + text(b"name")
        + text(b"x")
        + b"u."
    )


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_lists_and_names_come_back(protocol, tmp_path):
    content = {
        b"data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        b"labels": [1, np.int64(2)],
        "names": ["a", b"\xe9"],
    }
    (tmp_path / "p").write_bytes(pickle.dumps(content, protocol=protocol))
    read = read_pickle(tmp_path / "p")
    assert list(read) == ["data", "labels", "names"]
    assert np.array_equal(read["data"], content[b"data"])
    assert read["labels"] == [1, 2]
    assert to_strings(read["names"]) == ["a", "é"]


def test_pickles_of_python_2_are_read(tmp_path):
    (tmp_path / "p").write_bytes(python2_pickle())
    read = read_pickle(tmp_path / "p")
    assert read["data"].tolist() == [[1, 2, 3], [250, 251, 252]]
    assert read["fine_labels"] == [7]
    assert read["name"] == "x"


def test_a_foreign_byte_order_in_a_pickle_changes_no_other_array(tmp_path):
    (tmp_path / "p").write_bytes(pickle.dumps({"a": np.array([1, 2], ">i8")}))
    assert read_pickle(tmp_path / "p")["a"].tolist() == [1, 2]
    assert np.array([1], np.int64).tobytes() == (1).to_bytes(8, "little")


def reduce_of(module: str, name: str, *arguments) -> bytes:
    """A pickle that calls module.name(*arguments), also where Python itself would not write it."""
    body = b"".join(pickle.dumps(argument, 0)[:-1] for argument in arguments)
    return f"c{module}\n{name}\n(".encode() + body + b"tR."


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            pickle.dumps({"x": Runs(os.system, "echo hacked > hacked")}),
            "names posix.system|names nt.system",
        ),
        (pickle.dumps(Runs(builtins.eval, "1+1")), "names .*builtin.*eval"),
        (pickle.dumps(Runs(getattr, "x", "upper")), "getattr"),
        (pickle.dumps({"x": np.array([{}, []], object)}), "type 'O8'"),
        (pickle.dumps({"x": np.array(["text"])}), "type 'U4'"),
        (pickle.dumps({"x": np.zeros(3)}), "type 'f8'"),
        (reduce_of("numpy", "ndarray", 10**12), "not callable"),
        (reduce_of("_codecs", "encode", "x", "zlib_codec"), "codec 'zlib_codec'"),
        (b"cnumpy\ndtype\n}X\x01\x00\x00\x00aK\x01sb.", "damaged"),
        (
            b"}(" + b")" + b"\x85" * 100_000 + b"K\x01u.",
            "keys that are neither",
        ),  # nested deeper than any stack
        (
            b"}(" + b")q\x00" + b"h\x00h\x00\x86q\x00" * 200 + b"K\x01u.",
            "keys that are neither",
        ),  # 2^200 to be hashed
        (b"}(" + b")" + b"2\x86" * 9 + b"K\x01u.", "the operation DUP"),
        (b"]r\xff\xff\xff\x7f.", "holds a list"),  # a memory of two billion places
        (
            TYPE
            + b"(K\x03U\x01|N(U\x01xt}U\x01x("
            + TYPE
            + b"J\xff\xff\xff\x7ftsJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.",
            "structured",
        ),
        (TYPE + b"(K\x03U\x01|NNNJ\xff\xff\xff\x7fJ\xff\xff\xff\x7fK\x00tb.", "structured"),
        (b"Pabc\n.", "the operation PERSID"),
        (b"U\x01aR.", "removes more"),
        (b"]K\x01Ra.", "not callable"),
        (b"]K\x01b.", "not an array"),
        (b"}K\x01a.", "not a list"),
        (b"\x80\x04\x95", "damaged"),
        (b"", "damaged"),
        (b"plain words", "damaged"),
    ],
    ids=itertools.count(),
)
def test_unsafe_pickle_is_refused(data, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil").write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_pickle(tmp_path / "evil")
    assert str(tmp_path / "evil") in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["evil"]


def test_a_forged_array_shape_allocates_nothing(tmp_path):
    data = bytearray(python2_pickle())
    at = data.index(b"(K\x02K\x03t")
    data[at : at + 6] = b"(J\xff\xff\xff\x7fK\x03t"
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        read_pickle(tmp_path / "p")


def test_matlab_variables_must_be_numbers(tmp_path):
    savemat(
        tmp_path / "m.mat", {"X": np.zeros((2, 2), np.uint8), "words": "text", "z": np.array([1j])}
    )
    assert read_mat(tmp_path / "m.mat", "X")[0].shape == (2, 2)
    for name in ("y", "words", "z"):
        with pytest.raises(DataError, match=f"no numeric variable '{name}'"):
            read_mat(tmp_path / "m.mat", name)


def test_rows_are_read_from_a_truncated_file(tmp_path):
    rows = np.arange(50, dtype=np.uint8).reshape(10, 5)
    np.save(tmp_path / "a.npy", rows)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[: 128 + 4 * 5])
    assert np.array_equal(read_rows(tmp_path / "a.npy", 4, 5), rows[:4])
    with pytest.raises(DataError, match="truncated"):
        read_rows(tmp_path / "a.npy", 5, 5)


def test_an_idx_file_may_be_uncompressed(tmp_path):
    (tmp_path / "i").write_bytes(struct.pack(">HBBII", 0, 8, 2, 2, 3) + bytes(range(6)))
    assert read_idx(tmp_path / "i").tolist() == [[0, 1, 2], [3, 4, 5]]


def npy_file(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + header + data


def npy_header(shape: str) -> bytes:
    return f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
@pytest.mark.parametrize("shape", ["(2, 5)", "(2L, 5L)"])
def test_rows_of_every_version_of_the_format_are_read(version, shape, tmp_path):
    (tmp_path / "a.npy").write_bytes(npy_file(npy_header(shape), bytes(range(10)), version))
    assert read_rows(tmp_path / "a.npy", 9, 5).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        npy_file(b""),
        npy_file(b"(" * 5000 + b")" * 5000),
        npy_file(b"-" * 9000 + b"1"),
        npy_file(b"{" * 60_000),
        npy_file(b"[" * 10**6, version=b"\x02\x00"),
        npy_file(npy_header("(-2, 5)"), bytes(10)),
        npy_file(npy_header("(0, 5)"), bytes(10)),
        npy_file(npy_header("(True, 5)"), bytes(10)),
        npy_file(npy_header("(99999999999999999999, 5)"), bytes(10)),
        npy_file(npy_header("(2, 5, 1)"), bytes(10)),
        npy_file(npy_header("(2, 5)").replace(b"|u1", b"|O"), bytes(10)),
        npy_file(npy_header("(2, 5)").replace(b"'|u1'", b"[('a', '|u1')]"), bytes(10)),
        npy_file(npy_header("(2, 5)").replace(b"False", b"True"), bytes(10)),
        npy_file(b"\xff\xfe" + npy_header("(2, 5)"), bytes(10)),
    ],
    ids=itertools.count(),
)
def test_forged_npy_header_is_refused(data, tmp_path):
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.npy is damaged"):
        read_rows(tmp_path / "a.npy", 9, 5)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "shape", [(999_999, 4096, 4096), (2**32 - 1,) * 3, (2**29, 1, 1), (10_000, 200, 200)]
)
def test_an_idx_file_that_announces_terabytes_is_refused_unread(shape, pack, tmp_path):
    (tmp_path / "i").write_bytes(pack(struct.pack(">HBBIII", 0, 8, 3, *shape) + bytes(100)))
    with pytest.raises(DataError, match="announces"):
        read_idx(tmp_path / "i")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_file_with_extra_bytes_is_refused(pack, tmp_path):
    (tmp_path / "i").write_bytes(pack(struct.pack(">HBBI", 0, 8, 1, 4) + bytes(5)))
    with pytest.raises(DataError, match=r"continues after the announced \[4\]"):
        read_idx(tmp_path / "i")


def test_no_flipped_bit_of_a_compressed_idx_file_gives_other_bytes(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, 4000, np.uint8).tobytes()
    data = gzip.compress(struct.pack(">HBBI", 0, 8, 1, 4000) + pixels)
    refused = 0
    for place in range(0, len(data), 97):
        (tmp_path / "i").write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        try:
            assert read_idx(tmp_path / "i").tobytes() == pixels
        except DataError:
            refused += 1
    assert refused > 40


def test_recursive_labels_are_refused(tmp_path):
    labels: list = []
    for _ in range(100):
        labels = [labels, labels]
    (tmp_path / "p").write_bytes(pickle.dumps({"fine_labels": labels}))
    with pytest.raises(DataError, match="not all integers"):
        check_integers(
            tmp_path / "p", "its labels", read_pickle(tmp_path / "p")["fine_labels"], 0, 9
        )


def test_random_bytes_and_damaged_pickles_are_refused_or_read_and_never_crash(tmp_path):
    rng = np.random.default_rng(0)
    good = pickle.dumps(
        {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2]}, protocol=2
    )
    for _ in range(300):
        data = np.frombuffer(good, np.uint8).copy()
        data[rng.integers(len(data), size=rng.integers(1, 6))] = rng.integers(256)
        (tmp_path / "p").write_bytes(data.tobytes())
        with contextlib.suppress(DataError):
            read_pickle(tmp_path / "p")
