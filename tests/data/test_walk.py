import os

import pytest

from anyshot.core.errors import DataError
from anyshot.data.walk import walk_files


def test_files_at_any_depth_are_found_and_hidden_ones_ignored(tmp_path):
    for name in (
        "b.png",
        "a.png",
        "deep/c.png",
        "deep/down/d.png",
        ".hidden/e.png",
        "deep/.f.png",
        "deep/Thumbs.db",
        "desktop.ini",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    skipped = []
    paths = [str(p.relative_to(tmp_path)) for p in walk_files(tmp_path, tmp_path, skipped)]
    assert paths == ["a.png", "b.png", "deep/c.png", "deep/down/d.png"]
    assert skipped == []


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_broken_links_loops_and_pipes_are_named(tmp_path):
    root = tmp_path / "photos"
    (root / "deep").mkdir(parents=True)
    (root / "a.png").touch()
    (root / "gone.png").symlink_to(tmp_path / "nowhere")
    (root / "deep" / "up").symlink_to(root, target_is_directory=True)
    (root / "deep" / "above").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(root / "pipe.png")
    skipped = []
    assert list(walk_files(root, root, skipped)) == [root / "a.png"]
    assert dict(skipped) == {
        "gone.png": "a broken link",
        "pipe.png": "not a regular file",
        "deep/up": "a link to a folder that was already read",
        "deep/above": "a link to a folder that was already read",
    }


def test_a_folder_that_disappears_gets_a_message(tmp_path):
    with pytest.raises(DataError, match="gone"):
        list(walk_files(tmp_path / "gone", tmp_path, []))
