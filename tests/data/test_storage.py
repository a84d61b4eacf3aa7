from __future__ import annotations

import numpy as np
import pytest
from support import limited_files

from anyshot.core.errors import AnyshotError, DataError
from anyshot.data import ImageSet
from anyshot.data.storage import write_image_set


def pixels(n: int, value: int = 0, side: int = 8) -> np.ndarray:
    return np.full((n, side, side, 3), value, np.uint8)


def test_a_class_may_come_in_several_parts(tmp_path):
    with write_image_set(tmp_path / "set", "parts", (8, 8)) as writer:
        writer.add("a", pixels(2, 1))
        writer.add("a", pixels(3, 2))
        writer.add("b", pixels(1, 3))
        writer.splits = {"test": ["b"]}
        writer.notes["why"] = "a test"
    opened = ImageSet.open(tmp_path / "set")
    assert opened.images[:, 0, 0, 0].tolist() == [1, 1, 2, 2, 2, 3]
    assert opened.counts.tolist() == [5, 1]
    assert opened.splits == {"test": (1,)}
    assert opened.notes == {"why": "a test"}
    opened.check()


def test_an_interrupted_creation_leaves_nothing(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        write_image_set(tmp_path / "half", "half", (8, 8)) as writer,
    ):
        writer.add("a", pixels(2))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([("a", pixels(1, side=9))], "expected uint8"),
        ([("a", pixels(1).astype(np.int16))], "expected uint8"),
        ([("a", pixels(1)), ("b", pixels(1)), ("a", pixels(1))], "one after another"),
    ],
)
def test_wrong_images_are_refused_and_leave_nothing(tmp_path, parts, words):
    with (
        pytest.raises(DataError, match=words),
        write_image_set(tmp_path / "odd", "odd", (8, 8)) as writer,
    ):
        for label, images in parts:
            writer.add(label, images)
    assert list(tmp_path.iterdir()) == []


def test_wrong_splits_leave_nothing(tmp_path):
    with (
        pytest.raises(DataError, match="name 'b'"),
        write_image_set(tmp_path / "odd", "odd", (8, 8), {"test": "b"}) as writer,
    ):
        writer.add("a", pixels(1))
    assert list(tmp_path.iterdir()) == []


def test_a_set_needs_classes_and_images(tmp_path):
    with (
        pytest.raises(DataError, match="'a' has no images"),
        write_image_set(tmp_path / "n", "n", (8, 8)) as writer,
    ):
        writer.add("a", pixels(0))
    with (
        pytest.raises(DataError, match="at least one"),
        write_image_set(tmp_path / "n", "n", (8, 8)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_full_disk_gets_a_message_and_leaves_nothing(tmp_path):
    with (
        limited_files(10_000),
        pytest.raises(AnyshotError, match=r"Cannot write .*images\.npy': File too large"),
        write_image_set(tmp_path / "full", "full", (8, 8)) as writer,
    ):
        writer.add("a", pixels(1000))
    assert list(tmp_path.iterdir()) == []
