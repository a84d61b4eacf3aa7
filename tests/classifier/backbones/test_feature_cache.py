"""Features are computed once for each content, with a cache that can fail or without."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
import pytest
from PIL import Image

from anyshot.classifier.backbones import Backbone, compute, compute_features, feature_cache
from anyshot.classifier.backbones.feature_cache import (
    FeatureCache,
    cache_contents,
    cache_path,
    clear_cache,
)
from anyshot.core.errors import AnyshotError, FileError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(feature_cache, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(feature_cache, "_warned", set())


def counting_backbone(fingerprint="counting", side=4):
    """A backbone that returns the pixels, and the list of its batch sizes."""
    seen = []

    def compute(pixels):
        seen.append(len(pixels))
        return pixels.reshape(len(pixels), -1).astype(np.float32)

    return Backbone("counting", side, fingerprint, compute), seen


def random_images(n):
    return list(RNG.integers(0, 255, (n, 6, 6, 3), np.uint8))


def test_known_images_are_not_computed_again():
    images = random_images(5)
    first, seen = counting_backbone()
    once = compute_features(images, first)
    again, seen_again = counting_backbone()
    np.testing.assert_array_equal(compute_features([images[3], images[0]], again), once[[3, 0]])
    assert (sum(seen), sum(seen_again)) == (5, 0)


def test_features_of_a_limited_number_of_images_stay_in_memory(monkeypatch):
    monkeypatch.setattr(compute, "BATCH", 2)
    monkeypatch.setattr(compute, "MEMORY_IMAGES", 4)
    plain, seen = counting_backbone(fingerprint="")
    backbone = dataclasses.replace(plain, memory={})
    images = random_images(7)
    compute_features(images, backbone)
    assert seen == [2, 2, 2, 1]
    assert len(backbone.memory) == 4
    compute_features(images, backbone)
    assert seen[4:] == [2, 1]


@pytest.mark.parametrize("forged", [b"abc", b"", b"12345678", 7], ids=str)
@pytest.mark.parametrize("number", [1, 3])
def test_forged_entries_with_a_right_digest_are_computed_again(forged, number):
    """An odd length, no values, another width, no bytes; in one entry or in all."""
    images = random_images(3)
    backbone, _ = counting_backbone()
    expected = compute_features(images, backbone)
    content = forged if isinstance(forged, bytes) else b""
    with closing(sqlite3.connect(cache_path())) as base, base:
        keys = [key for (key,) in base.execute("SELECT image FROM features")]
        for key in keys[:number]:
            digest = hashlib.sha256(b"counting" + key + content).digest()[:16]
            base.execute(
                "UPDATE features SET vector = ?, digest = ? WHERE image = ?", (forged, digest, key)
            )
    more = [*images, *random_images(1)]  # one that is not cached
    np.testing.assert_array_equal(compute_features(more, backbone)[:3], expected)


def test_only_many_images_have_a_progress_bar(monkeypatch):
    bars = []

    @contextmanager
    def record(title, total):
        bars.append([title, total])
        yield bars[-1].append

    monkeypatch.setattr(compute, "progress", record)
    monkeypatch.setattr(compute, "PROGRESS_FROM", 3)
    for n in (2, 3):
        compute_features(random_images(n), counting_backbone()[0])
    ((title, total, advanced),) = bars
    assert "counting" in title
    assert (total, advanced) == (3, 3)


def test_equal_images_are_computed_once():
    image = random_images(1)[0]
    backbone, seen = counting_backbone()
    rows = compute_features([image, image.copy(), image], backbone)
    assert sum(seen) == 1
    assert (rows == rows[0]).all()


def test_another_fingerprint_shares_nothing():
    images = random_images(2)
    compute_features(images, counting_backbone("one")[0])
    backbone, seen = counting_backbone("two")
    compute_features(images, backbone)
    assert sum(seen) == 2


def test_without_a_fingerprint_nothing_is_written(tmp_path):
    backbone, _ = counting_backbone("")
    compute_features(random_images(1), backbone)
    assert not (tmp_path / "cache").exists()


def test_an_interrupted_computation_continues():
    images = random_images(70)
    backbone, seen = counting_backbone()

    def failing(pixels):
        if seen:
            raise KeyboardInterrupt
        return backbone.compute(pixels)

    with pytest.raises(KeyboardInterrupt):
        compute_features(images, Backbone("counting", 4, "counting", failing))
    done = sum(seen)
    assert 0 < done < 70
    compute_features(images, backbone)
    assert sum(seen) == 70


def test_arrays_of_other_shapes_with_the_same_bytes_differ():
    grey = RNG.integers(0, 255, (4, 9), np.uint8)
    backbone, seen = counting_backbone()
    rows = compute_features([grey, grey.reshape(9, 4), grey.reshape(6, 6)], backbone)
    assert sum(seen) == 3
    assert len(np.unique(rows, axis=0)) == 3


def test_palette_images_with_other_colours_differ():
    indices = Image.fromarray(np.zeros((6, 6), np.uint8), "P")
    red, blue = indices.copy(), indices.copy()
    red.putpalette([255, 0, 0])
    blue.putpalette([0, 0, 255])
    backbone, _ = counting_backbone()
    rows = [compute_features([image], backbone)[0].reshape(4, 4, 3) for image in (red, blue)]
    assert rows[0][0, 0].tolist() == [255, 0, 0]
    assert rows[1][0, 0].tolist() == [0, 0, 255]


def test_exif_rotation_applies_to_pil_images_and_paths(tmp_path):
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :4] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees clockwise: the left half is the upper half
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    backbone, _ = counting_backbone(side=8)
    with Image.open(tmp_path / "a.png") as image:
        rows = compute_features([tmp_path / "a.png", image], backbone).reshape(2, 8, 8, 3)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert rows[1][0, 7, 0] == 255
    assert rows[1][7, 0, 0] == 0


def test_arrays_pil_images_and_files_agree(tmp_path):
    pixels = random_images(1)[0]
    Image.fromarray(pixels).save(tmp_path / "a.png")
    backbone, _ = counting_backbone()
    rows = compute_features(
        [pixels, Image.fromarray(pixels), tmp_path / "a.png", str(tmp_path / "a.png")], backbone
    )
    assert (rows == rows[0]).all()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not a database, but long enough to look like a file" * 40),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to(path)),
        lambda path: sqlite3.connect(path).execute("DROP TABLE features").connection.close(),
        lambda path: path.write_bytes(b"x"),
    ],
    ids=["garbage", "truncated", "folder", "loop", "no table", "one byte"],
)
def test_a_damaged_cache_is_not_used(damage, caplog):
    images = random_images(3)
    expected = compute_features(images, counting_backbone()[0])
    damage(cache_path())
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        np.testing.assert_array_equal(compute_features(images, counting_backbone()[0]), expected)
    assert len([r for r in caplog.records if str(cache_path()) in r.getMessage()]) <= 1


def test_a_locked_cache_is_not_used(caplog):
    images = random_images(3)
    expected = compute_features(images[:1], counting_backbone()[0])
    other = sqlite3.connect(cache_path())
    other.execute("BEGIN EXCLUSIVE")
    rows = compute_features(images, counting_backbone()[0])
    other.close()
    np.testing.assert_array_equal(rows[:1], expected)
    assert [r.getMessage() for r in caplog.records if "locked" in r.getMessage()]


def test_a_full_disk_is_not_an_error(monkeypatch, caplog):
    def connect(path):
        base = sqlite3.connect(path)
        base.execute("PRAGMA max_page_count = 1")
        return base

    monkeypatch.setattr(feature_cache, "_connect", connect)
    backbone, seen = counting_backbone()
    compute_features(random_images(40), backbone)
    assert sum(seen) == 40
    assert len([r for r in caplog.records if "full" in r.getMessage()]) == 1


def test_a_read_only_cache_is_read(monkeypatch, caplog):
    images = random_images(2)
    compute_features(images[:1], counting_backbone()[0])
    monkeypatch.setattr(feature_cache, "USED_EVERY", -1)
    uri = f"file:{cache_path()}?mode=ro"
    monkeypatch.setattr(feature_cache, "_connect", lambda path: sqlite3.connect(uri, uri=True))
    backbone, seen = counting_backbone()
    compute_features(images, backbone)
    assert sum(seen) == 1
    assert len([r for r in caplog.records if "readonly" in r.getMessage()]) == 1


def test_a_cache_folder_that_is_a_file_is_not_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "file"))
    compute_features(random_images(1), counting_backbone()[0])
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "file" / "below"))
    compute_features(random_images(1), counting_backbone()[0])


def test_a_changed_entry_is_computed_again():
    images = random_images(1)
    expected = compute_features(images, counting_backbone()[0])
    with sqlite3.connect(cache_path()) as base:
        (vector,) = base.execute("SELECT vector FROM features").fetchone()
        base.execute("UPDATE features SET vector = ?", (vector[:-1] + bytes([vector[-1] ^ 64]),))
    base.close()
    backbone, seen = counting_backbone()
    np.testing.assert_array_equal(compute_features(images, backbone), expected)
    assert sum(seen) == 1


def test_the_least_recently_used_features_are_removed(monkeypatch):
    clock = iter(range(10**9, 2 * 10**9, 10_000))
    monkeypatch.setattr(feature_cache.time, "time", lambda: next(clock))
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 50_000)
    cache = FeatureCache("wide")
    keys = [bytes([i]) * 32 for i in range(10)]
    rows = {key: np.full(1000, i, np.float32) for i, key in enumerate(keys)}
    for key in keys[:6]:
        cache.write({key: rows[key]})
    cache.read(keys[:1])  # used again
    for key in keys[6:10]:
        cache.write({key: rows[key]})
    known = cache.read(keys)
    assert keys[0] in known
    assert keys[1] not in known
    assert keys[9] in known
    assert cache_path().stat().st_size <= 55_000


def test_a_batch_beyond_the_limit_is_reduced_at_once(monkeypatch):
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 500_000)
    cache = FeatureCache("wide")
    cache.write({bytes([i]) * 32: np.zeros(1000, np.float32) for i in range(250)})
    assert 0.8 * 500_000 <= cache_path().stat().st_size <= 500_000
    assert 60 <= cache_contents()["wide"][0] <= 125


def test_the_time_of_use_is_recorded_once_an_hour(monkeypatch):
    now = [10**9]
    monkeypatch.setattr(feature_cache.time, "time", lambda: now[0])
    cache = FeatureCache("one")
    cache.write({b"key": np.zeros(4, np.float32)})

    def used():
        with closing(sqlite3.connect(cache_path())) as base:
            return base.execute("SELECT used FROM features").fetchone()[0]

    now[0] += 1000
    cache.read([b"key"])
    assert used() == 10**9
    now[0] += 3000
    cache.read([b"key"])
    assert used() == 10**9 + 4000


def test_cache_contents_and_clear():
    assert cache_contents() == {}
    compute_features(random_images(3), counting_backbone("one")[0])
    compute_features(random_images(2), counting_backbone("two")[0])
    assert cache_contents() == {"one": (3, 3 * 48 * 4), "two": (2, 2 * 48 * 4)}
    assert clear_cache() > 0
    assert cache_contents() == {}
    assert clear_cache() == 0
    cache_path().write_bytes(b"no database at all" * 400)
    with pytest.raises(FileError, match="cache clear"):
        cache_contents()


def test_files_that_are_no_images_are_named(tmp_path):
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(AnyshotError, match=r"note\.txt.*not an image"):
        compute_features([tmp_path / "note.txt"], counting_backbone()[0])
    with pytest.raises(AnyshotError, match=r"gone\.png"):
        compute_features([tmp_path / "gone.png"], counting_backbone()[0])
    with pytest.raises(AnyshotError, match="at least one"):
        compute_features([], counting_backbone()[0])
