from __future__ import annotations

import logging
import os

import numpy as np
import pytest
from PIL import Image
from support import limited_files

from anyshot.core.errors import AnyshotError, DataError, SettingsError
from anyshot.data import folder as folder_module
from anyshot.data import open_images


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pets").mkdir()
    return tmp_path / "pets"


def put(folder, count=3, colour=(200, 30, 30), size=(40, 30), kind="png"):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        Image.new("RGB", size, colour).save(folder / f"{n:03}.{kind}")


def test_class_folders_become_an_image_set(root):
    put(root / "cat", 3, (255, 0, 0))
    put(root / "dog", 4, (0, 0, 255), kind="bmp")
    pets = open_images(root)
    assert pets.name == "pets"
    assert pets.classes == ("cat", "dog")
    assert pets.counts.tolist() == [3, 4]
    assert pets.size == (32, 32)
    assert pets.images_of("dog")[0, 5, 5].tolist() == [0, 0, 255]
    assert pets.skipped == []


def test_size_can_be_chosen(root):
    put(root / "cat")
    assert open_images(root, size=84).size == (84, 84)
    assert open_images(str(root), size=20).size == (20, 20)


def test_a_class_split_is_made_by_seed(root):
    for n in range(10):
        put(root / f"c{n}", 2)
    splits = [open_images(root, seed=seed).splits for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]
    assert {split: len(members) for split, members in splits[0].items()} == {
        "train": 6,
        "validation": 2,
        "test": 2,
    }
    assert sorted(c for members in splits[0].values() for c in members) == list(range(10))


def test_split_folders_are_the_split(root):
    put(root / "train" / "cat")
    put(root / "val" / "dog")
    put(root / "test" / "eel")
    (root / "train" / "notes.txt").write_text("by hand")
    pets = open_images(root)
    assert {
        split: [pets.classes[c] for c in members] for split, members in pets.splits.items()
    } == {
        "train": ["cat"],
        "validation": ["dog"],
        "test": ["eel"],
    }
    assert pets.skipped == [("train/notes.txt", "not in a class folder")]


def test_a_class_in_two_split_folders_is_refused(root):
    put(root / "train" / "cat")
    put(root / "test" / "cat")
    with pytest.raises(AnyshotError, match="Class 'cat'"):
        open_images(root)


def test_nested_folders_belong_to_their_class_and_hidden_files_to_none(root):
    put(root / "cat" / "2019" / "june", 2)
    put(root / "cat", 1)
    put(root / "cat" / ".thumbnails", 5)
    put(root / ".git", 5)
    (root / "cat" / ".DS_Store").write_bytes(b"x")
    pets = open_images(root)
    assert pets.classes == ("cat",)
    assert len(pets) == 3
    assert pets.skipped == []


def test_bad_files_are_counted_named_and_skipped(root, caplog):
    put(root / "cat")
    (root / "cat" / "notes.txt").write_text("not a picture")
    (root / "cat" / "tiny.png").write_bytes(b"")
    Image.new("RGB", (1, 1)).save(root / "cat" / "one.png")
    (root / "loose.jpg").write_bytes(b"?")
    put(root / "dog", 1)
    (root / "eel").mkdir()
    with caplog.at_level(logging.WARNING):
        pets = open_images(root)
    assert dict(pets.skipped) == {
        "loose.jpg": "not in a class folder",
        "cat/notes.txt": "not an image",
        "cat/tiny.png": "an empty file",
        "cat/one.png": "too small (1x1)",
        "dog": "a class of 1 usable images; it needs 2",
        "eel": "a class folder without files",
    }
    assert pets.classes == ("cat",)
    assert "skipped 6 files or folders" in caplog.text
    assert "and 1 more" in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_links_that_loop_or_lead_nowhere_are_named(root):
    put(root / "cat")
    (root / "cat" / "again").symlink_to(root / "cat", target_is_directory=True)
    (root / "cat" / "up").symlink_to(root, target_is_directory=True)
    (root / "cat" / "self.png").symlink_to(root / "cat" / "self.png")
    (root / "cat" / "gone.png").symlink_to(root / "nowhere.png")
    os.mkfifo(root / "cat" / "pipe.png")
    pets = open_images(root)
    assert len(pets) == 3
    assert dict(pets.skipped) == {
        "cat/again": "a link to a folder that was already read",
        "cat/up": "a link to a folder that was already read",
        "cat/self.png": "a broken link",
        "cat/gone.png": "a broken link",
        "cat/pipe.png": "not a regular file",
    }


def test_links_to_folders_are_followed_once(root, tmp_path):
    put(tmp_path / "elsewhere", 2)
    (root / "cat").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert open_images(root).counts.tolist() == [2]


def test_a_class_folder_that_is_a_broken_link_or_empty_is_named(root):
    put(root / "cat")
    (root / "dog").mkdir()
    (root / "eel").symlink_to(root / "nowhere", target_is_directory=True)
    listing = folder_module.list_folder(root)
    assert list(listing.files) == ["cat"]
    assert dict(listing.skipped) == {"dog": "a class folder without files", "eel": "a broken link"}


@pytest.mark.parametrize("parts", [("train", "query"), ("support", "query"), ("train", "extra")])
def test_a_folder_one_level_too_high_is_refused(root, parts):
    for part in parts:
        for label in ("cat", "dog"):
            put(root / part / label, 2)
    with pytest.raises(DataError, match=rf"{parts[-1]}.*/cat") as caught:
        folder_module.list_folder(root)
    assert str(root / sorted(parts)[0]) in str(caught.value)


def test_class_folders_that_contain_only_folders_are_noticed(root, caplog):
    for label in ("cat", "dog"):
        put(root / label / "2019", 2)
        put(root / label / "2020", 1)
    with caplog.at_level(logging.WARNING):
        pets = open_images(root)
    assert pets.counts.tolist() == [3, 3]
    assert "cat/2019" in caplog.text


def test_one_class_folder_with_images_shows_that_the_level_is_right(root, caplog):
    put(root / "cat" / "2019", 2)
    put(root / "cat" / "2020", 1)
    put(root / "dog", 2)
    with caplog.at_level(logging.WARNING):
        open_images(root)
    assert caplog.text == ""


@pytest.mark.parametrize("size", [0, -1, 100_000])
def test_an_image_side_out_of_range_is_refused(root, size):
    put(root / "cat")
    with pytest.raises(SettingsError, match=str(size)):
        open_images(root, size=size)


def test_second_opening_decodes_nothing_unless_files_changed(root, monkeypatch):
    put(root / "cat", 2)
    put(root / "dog", 2)
    first = open_images(root)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "decode_all", None)
        assert np.array_equal(open_images(root).images, first.images)
    put(root / "dog", 3)
    assert open_images(root).counts.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda root: None, "no class folders"),
        (lambda root: (root / "a.png").write_bytes(b"x"), "no class folders"),
        (lambda root: (root / "cat").mkdir(), "no class folders"),
        (lambda root: put(root / "cat", 1), "No class of .* has 2 usable images"),
    ],
)
def test_folder_without_a_usable_class_is_refused_and_leaves_nothing(root, cache, prepare, words):
    prepare(root)
    with pytest.raises(AnyshotError, match=words):
        open_images(root)
    assert not cache.exists() or list((cache / "folders").iterdir()) == []


def test_path_that_is_not_a_folder_is_refused(tmp_path):
    with pytest.raises(AnyshotError, match="not a folder"):
        folder_module.open_folder(tmp_path / "nothing")
    with pytest.raises(AnyshotError, match="no image set or folder 'nothing'"):
        open_images("nothing")


def test_folder_without_read_permission_is_named(root, monkeypatch):
    put(root / "cat")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(AnyshotError, match="Permission denied"):
        folder_module.list_folder(root)


def test_a_saved_set_opens_by_its_path_and_keeps_its_size(root, tmp_path):
    put(root / "cat")
    open_images(root).save(tmp_path / "saved")
    assert open_images(tmp_path / "saved").classes == ("cat",)
    with pytest.raises(AnyshotError, match=r"32x32.*84x84"):
        open_images(tmp_path / "saved", size=84)


def test_names_that_are_not_utf8_or_not_printable_are_escaped(tmp_path, caplog):
    root = tmp_path / os.fsdecode(b"caf\xe9")
    for name in (b"th\xe9", b"two\nlines", b"[b]", "字".encode()):
        put(root / os.fsdecode(name), 2)
        (root / os.fsdecode(name) / os.fsdecode(b"\xff\x1b[2J.txt")).write_text("no picture")
    for _ in range(2):  # converted, then opened
        images = open_images(root)
        assert images.name == r"caf\udce9"
        assert images.classes == ("[b]", r"th\udce9", r"two\nlines", "字")
        assert images.skipped[0] == (r"[b]/\udcff\x1b[2J.txt", "not an image")
    assert caplog.text.isascii() or "字" in caplog.text
    assert "\x1b" not in caplog.text


def test_folder_name_may_have_the_maximum_length(tmp_path):
    root = tmp_path / ("é" * 127)
    put(root / "cat", 2)
    assert open_images(root).classes == ("cat",)


def test_unwritable_cache_gets_a_message(root, tmp_path, monkeypatch):
    put(root / "cat", 2)
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "file" / "cache"))
    for name in (root, "glyphs"):
        with pytest.raises(
            AnyshotError, match=r"Cannot create .*: Not a directory\. .*ANYSHOT_CACHE"
        ):
            open_images(name)


def test_full_disk_gets_a_message_and_leaves_nothing(root, cache):
    put(root / "cat", 20)
    with (
        limited_files(20_000),
        pytest.raises(AnyshotError, match=r"Cannot write .*images\.npy': File too large"),
    ):
        open_images(root)
    assert list((cache / "folders").iterdir()) == []
    assert len(open_images(root)) == 20


@pytest.mark.parametrize("name", ["", "~nobody-here/pictures", "x" * 5000, "a\0b"])
def test_impossible_paths_are_refused(name):
    with pytest.raises(AnyshotError, match="There is no image set or folder"):
        open_images(name)
