"""Folders are complete or absent, and locks end with the process that holds them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from anyshot.core import files
from anyshot.core.atomic_folders import (
    atomic_folder,
    lock_folder,
    remove_stale_temporaries,
    temporary_folder,
)
from anyshot.core.errors import DataError, FileError

HOLD = """
import sys, time
from anyshot.core import atomic_folders
with getattr(atomic_folders, sys.argv[1])(*sys.argv[2:]):
    print("held", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def start_holder(*arguments: str) -> subprocess.Popen[str]:
    """Start a process that enters a context manager of the module and stays in it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def kill(holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.communicate()


def test_folder_appears_when_its_block_succeeds(tmp_path):
    with atomic_folder(tmp_path / "set") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("1")
        assert folder.parent == tmp_path
        assert not (tmp_path / "set").exists()
    assert (tmp_path / "set" / "inner" / "a").read_text() == "1"
    assert names(tmp_path) == ["set"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failed_block_leaves_the_old_folder(tmp_path, error):
    with atomic_folder(tmp_path / "set") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(error), atomic_folder(tmp_path / "set") as folder:
        (folder / "a").write_text("new")
        raise error
    assert (tmp_path / "set" / "a").read_text() == "old"
    assert names(tmp_path) == ["set"]


def test_folder_replaces_a_full_folder_a_file_or_a_link(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").write_text("x")
    for _ in range(2):
        for name in ("link", "file"):
            with atomic_folder(tmp_path / name) as folder:
                (folder / "a").write_text(name)
            assert names(tmp_path / name) == ["a"]
    assert names(tmp_path / "target") == ["precious"]
    assert names(tmp_path) == ["file", "link", "target"]


def test_leftovers_are_removed_and_folders_in_use_stay(tmp_path):
    for name in (".set.0123456789ab.tmp", ".someone else's.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_bytes(bytes(100))
    (tmp_path / ".file.0123456789ab.tmp").touch()
    (tmp_path / ".gone.0123456789ab.tmp.lock").touch()
    with atomic_folder(tmp_path / "first") as first, atomic_folder(tmp_path / "second"):
        assert first.is_dir()
        assert not (tmp_path / ".set.0123456789ab.tmp").exists()
    expected = [".file.0123456789ab.tmp", ".someone else's.tmp", "first", "second"]
    assert names(tmp_path) == expected


def test_temporary_folder_of_a_killed_process_is_removed(tmp_path):
    holder = start_holder("temporary_folder", str(tmp_path / "set"))
    try:
        before = names(tmp_path)
        assert len(before) == 2  # the folder and its lock
        remove_stale_temporaries(tmp_path)
        assert names(tmp_path) == before
    finally:
        kill(holder)
    remove_stale_temporaries(tmp_path)
    assert names(tmp_path) == []


def test_temporary_files_are_removed_on_request(tmp_path):
    (tmp_path / ".file.0123456789ab.tmp").touch()
    remove_stale_temporaries(tmp_path, files=True)
    assert names(tmp_path) == []


def test_without_file_locks_leftovers_are_removed_after_a_day(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    for name in ("ba", "ab"):
        (tmp_path / f".set.0123456789{name}.tmp").mkdir()
    os.utime(tmp_path / ".set.0123456789ab.tmp", (0, 0))
    remove_stale_temporaries(tmp_path)
    assert names(tmp_path) == [".set.0123456789ba.tmp"]
    with lock_folder(tmp_path / ".lock", "taken"), atomic_folder(tmp_path / "set"):
        pass
    assert names(tmp_path) == [".set.0123456789ba.tmp", "set"]


def test_locked_folder_is_refused_until_its_holder_is_killed(tmp_path):
    holder = start_holder("lock_folder", str(tmp_path / ".lock"), "-")
    try:
        with (
            pytest.raises(FileError, match="run 7 is taken"),
            lock_folder(tmp_path / ".lock", "run 7 is taken"),
        ):
            pass
    finally:
        kill(holder)
    with lock_folder(tmp_path / ".lock", "taken"):
        assert names(tmp_path) == [".lock"]
    assert names(tmp_path) == []


def test_lock_is_not_taken_twice_in_one_process(tmp_path):
    with lock_folder(tmp_path / ".lock", "first"):
        for _ in range(2):
            with (
                pytest.raises(FileError, match="second"),
                lock_folder(tmp_path / ".lock", "second"),
            ):
                pass


def test_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(FileError, match=r"create .*file/set'"),
        atomic_folder(tmp_path / "file" / "set"),
    ):
        pass


def test_errors_name_the_requested_folder_and_keep_their_family(tmp_path):
    with (
        pytest.raises(FileError, match=rf"'{tmp_path}/set/a\.json/b': File exists"),
        atomic_folder(tmp_path / "set") as folder,
    ):
        (folder / "a.json").touch()
        files.write_bytes(folder / "a.json" / "b", b"")
    with (
        pytest.raises(DataError, match=f"^{tmp_path}/set/x$"),
        temporary_folder(tmp_path / "set") as folder,
    ):
        raise DataError(str(folder / "x"))
