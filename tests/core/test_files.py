"""Files are written completely, deterministically and safely, and errors name them."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from anyshot.core import files
from anyshot.core.errors import FileError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_written_file_is_alone_in_its_folder_and_respects_the_umask(tmp_path):
    files.write_bytes(tmp_path / "deep" / "a.bin", b"one")
    files.write_bytes(tmp_path / "deep" / "a.bin", b"two")
    assert (tmp_path / "deep" / "a.bin").read_bytes() == b"two"
    assert names(tmp_path / "deep") == ["a.bin"]
    (tmp_path / "ordinary").touch()
    assert (tmp_path / "deep" / "a.bin").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_failed_write_keeps_the_old_file_and_leaves_no_temporary_one(tmp_path, monkeypatch):
    files.write_bytes(tmp_path / "a.bin", b"old")

    def full_disk(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(FileError, match=r"Cannot write .*a\.bin': No space left on device"):
        files.write_bytes(tmp_path / "a.bin", b"new")
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


class WindowsLike:
    """The module ``os``, but only files that are open for writing can be flushed."""

    name = "nt"

    def __getattr__(self, name):
        return getattr(os, name)

    @staticmethod
    def fsync(descriptor):
        os.write(descriptor, b"")  # an error if the file is open for reading alone


def test_files_are_flushed_as_windows_needs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "os", WindowsLike())
    (tmp_path / "a.bin").write_bytes(b"one")
    files.fsync(tmp_path / "a.bin")
    files.fsync(tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"one"


def test_reader_during_writes_sees_complete_files_only(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, [0] * 5000)
    stop = threading.Event()

    def write():
        value = 0
        while not stop.is_set():
            value += 1
            files.write_json(path, [value] * 5000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            value = files.read_json(path)
            assert len(value) == 5000
            assert len(set(value)) == 1
    finally:
        stop.set()
        writer.join()


def test_json_has_null_for_numbers_that_are_not_finite(tmp_path):
    @dataclass(frozen=True)
    class Point:
        x: float
        where: Path

    obj = {
        "a": float("nan"),
        "b": [np.float32("inf"), np.int64(3), True, None, "ω"],
        "c": np.array([[1.5, np.nan]]),
        3: Point(float("-inf"), Path("x/y")),
        "e": torch.tensor([1.0, 2.0]),
        "f": {2, 1},
        "g": np.float64(0.1),
    }
    files.write_json(tmp_path / "a.json", obj)
    text = (tmp_path / "a.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert "ω" in text
    assert files.read_json(tmp_path / "a.json") == {
        "a": None,
        "b": [None, 3, True, None, "ω"],
        "c": [[1.5, None]],
        "3": {"x": None, "where": "x/y"},
        "e": [1.0, 2.0],
        "f": [1, 2],
        "g": 0.1,
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_plain_values_stay_unchanged(value):
    assert files.to_plain(value) == value
    assert json.loads(json.dumps(files.to_plain(value))) == value


def test_object_without_a_json_form_is_refused():
    with pytest.raises(TypeError, match="Lock"):
        files.to_plain({"lock": type("Lock", (), {})()})


def test_missing_or_damaged_json_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"gone\.json': there is no such file"):
        files.read_json(tmp_path / "gone.json")
    (tmp_path / "half.json").write_text('{"a": ')
    with pytest.raises(FileError, match=r"half\.json' is not valid JSON"):
        files.read_json(tmp_path / "half.json")
    (tmp_path / "raw.json").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FileError, match=r"raw\.json' is not valid JSON"):
        files.read_json(tmp_path / "raw.json")
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(FileError, match=r"deep\.json' is not valid JSON"):
        files.read_json(tmp_path / "deep.json")
    with pytest.raises(FileError, match="Is a directory"):
        files.read_json(tmp_path)
    with pytest.raises(FileError, match="null"):
        files.read_json("a\0b.json")


def test_tensors_that_share_memory_are_read_back_with_their_metadata(tmp_path):
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    tensors = {"all": base, "turned": base.T, "row": base[1], "half": base.detach().half()}
    files.write_tensors(tmp_path / "a.safetensors", tensors, {"iteration": "7"})
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata() == {"iteration": "7"}
        for name, tensor in tensors.items():
            read = file.get_tensor(name)
            assert read.dtype == tensor.dtype
            assert torch.equal(read, tensor)


def test_same_tensors_and_metadata_give_the_same_bytes_in_every_process(tmp_path):
    """safetensors stores metadata in the order of a hash map that is seeded in each process."""
    code = """
import sys, torch
from anyshot.core.files import write_tensors
metadata = {name: name * 3 for name in sys.argv[2]}
write_tensors(sys.argv[1], {"b": torch.ones(3), "a": torch.zeros(2)}, metadata)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "0"), "abcdefgh"], check=True)
    metadata = {name: name * 3 for name in "hgfedcba"}
    files.write_tensors(tmp_path / "1", {"b": torch.ones(3), "a": torch.zeros(2)}, metadata)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    with safe_open(tmp_path / "1", "pt") as file:
        assert file.metadata() == {name: name * 3 for name in "abcdefgh"}
        assert torch.equal(file.get_tensor("b"), torch.ones(3))


@given(st.dictionaries(st.text(), st.text()))
def test_metadata_of_any_text_can_be_read_back(tmp_path_factory, metadata):
    path = tmp_path_factory.mktemp("tensors") / "a.safetensors"
    files.write_tensors(path, {"weights": torch.arange(5)}, metadata)
    with safe_open(path, "pt") as file:
        assert (file.metadata() or {}) == metadata
        assert torch.equal(file.get_tensor("weights"), torch.arange(5))


def test_sha256_of_parts_is_that_of_the_whole():
    expected = hashlib.sha256(b"anyshot").hexdigest()
    assert files.sha256("any", memoryview(b"shot")) == expected


def test_csv_cells_cannot_be_formulas(tmp_path):
    row = {"name": '=HYPERLINK("http://x")', "@class": "+oak", "loss": -0.5, "text": "-1.25"}
    files.write_csv_rows(tmp_path / "a.csv", [row, {**row, "name": Path("-rf/photo.png")}])
    with open(tmp_path / "a.csv", newline="") as file:
        header, first, second = csv.reader(file)
    assert header == ["name", "'@class", "loss", "text"]
    assert first == ['\'=HYPERLINK("http://x")', "'+oak", "-0.5", "-1.25"]
    assert second[0] == "'-rf/photo.png"


def test_errors_show_file_names_without_control_characters(tmp_path):
    with pytest.raises(FileError) as caught:
        files.read_json(tmp_path / "evil\x1b[31m\n.json")
    assert "evil\\x1b[31m\\n.json" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_names_that_are_not_utf8_survive_in_json(tmp_path):
    files.write_json(tmp_path / "a.json", {"source": "caf\udce9", "é": 1})
    assert files.read_json(tmp_path / "a.json") == {"source": "caf\udce9", "é": 1}


def test_cache_folder_is_the_users_unless_the_environment_names_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path))
    assert files.cache_folder() == tmp_path
    monkeypatch.setenv("ANYSHOT_CACHE", "")
    assert files.cache_folder().name == "anyshot"
    assert not files.cache_folder().is_relative_to(tmp_path)


def test_check_writable_leaves_nothing_and_names_the_reason(tmp_path):
    (tmp_path / "file").touch()
    files.check_writable(tmp_path / "new" / "deep" / "a.json")
    files.check_writable(tmp_path / "file")
    assert names(tmp_path) == ["file"]
    for path, sentence in [
        (tmp_path / "file" / "a.json", "Not a directory"),
        (tmp_path, "Is a directory"),
        ("", "not a file name"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        with pytest.raises(FileError, match=sentence):
            files.check_writable(path)


def test_links_and_pipes_are_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write_bytes(tmp_path / "link", b"data")
    assert (tmp_path / "target").read_bytes() == b"data"
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: (tmp_path / "pipe").read_bytes())
    reader.start()
    files.check_writable(tmp_path / "pipe")
    files.write_bytes(tmp_path / "pipe", b"data")
    reader.join()
    assert (tmp_path / "pipe").is_fifo()


def test_cache_in_the_home_of_an_unknown_user_is_refused(monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", "~no-such-user")
    with pytest.raises(FileError, match="~no-such-user"):
        files.cache_folder()
    monkeypatch.setenv("ANYSHOT_CACHE", "~/x")
    assert files.cache_folder() == Path.home() / "x"
