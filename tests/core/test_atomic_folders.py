from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anyshot.core import atomic_folders, files
from anyshot.core.errors import AnyshotError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_fresh_folder_appears_only_when_its_block_ends_well(tmp_path):
    with atomic_folders.atomic_folder(tmp_path / "set") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("1")
        assert folder.parent == tmp_path
        assert not (tmp_path / "set").exists()
    assert (tmp_path / "set" / "inner" / "a").read_text() == "1"
    assert names(tmp_path) == ["set"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_fresh_folder_that_fails_leaves_the_old_one(tmp_path, error):
    with atomic_folders.atomic_folder(tmp_path / "set") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(error), atomic_folders.atomic_folder(tmp_path / "set") as folder:
        (folder / "a").write_text("new")
        raise error
    assert (tmp_path / "set" / "a").read_text() == "old"
    assert names(tmp_path) == ["set"]


def test_a_fresh_folder_replaces_a_full_folder_a_file_or_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("x")
    for _ in range(2):
        for name in ("link", "file"):
            with atomic_folders.atomic_folder(tmp_path / name) as folder:
                (folder / "a").write_text(name)
            assert names(tmp_path / name) == ["a"]
    assert names(tmp_path / "elsewhere") == ["precious"]
    assert names(tmp_path) == ["elsewhere", "file", "link"]


def test_what_a_killed_process_left_is_cleared_and_what_is_being_written_stays(tmp_path):
    for name in (".set.0123456789ab.tmp", ".other people's.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_bytes(bytes(100))
    (tmp_path / ".file.0123456789ab.tmp").touch()
    with (
        atomic_folders.atomic_folder(tmp_path / "first") as first,
        atomic_folders.atomic_folder(tmp_path / "second"),
    ):
        assert first.is_dir()
        assert not (tmp_path / ".set.0123456789ab.tmp").exists()
    assert names(tmp_path) == [".file.0123456789ab.tmp", ".other people's.tmp", "first", "second"]


def test_where_nothing_can_be_locked_leftovers_go_after_a_day(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    for name in ("ba", "ab"):
        (tmp_path / f".set.0123456789{name}.tmp").mkdir()
    os.utime(tmp_path / ".set.0123456789ab.tmp", (0, 0))
    atomic_folders.remove_stale_temporaries(tmp_path)
    assert names(tmp_path) == [".set.0123456789ba.tmp"]


def test_a_folder_cleared_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    locked, seen = atomic_folders._locked, []

    def slow(folder, wait):
        seen.append(folder)
        if len(seen) == 1:
            atomic_folders.remove_stale_temporaries(tmp_path)
        return locked(folder, wait)

    monkeypatch.setattr(atomic_folders, "_locked", slow)
    with atomic_folders.temporary_folder(tmp_path / "set") as folder:
        assert folder.is_dir()
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(AnyshotError, match=r"Cannot create .*file/set'"),
        atomic_folders.atomic_folder(tmp_path / "file" / "set"),
    ):
        pass


def test_an_error_names_the_folder_that_was_to_be_not_the_one_that_is_gone(tmp_path):
    with (
        pytest.raises(AnyshotError, match=rf"Cannot write '{tmp_path}/set/a\.json/b': File exists"),
        atomic_folders.atomic_folder(tmp_path / "set") as folder,
    ):
        (folder / "a.json").touch()
        files.write_bytes(folder / "a.json" / "b", b"")
