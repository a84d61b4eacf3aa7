"""Tasks whose images are all changed in the same way."""

import numpy as np
import pytest
from support import make_imageset

from anyshot import ImageSet, TaskSettings, TaskStream, open_images
from anyshot.data import tasks, unfamiliar
from anyshot.data.embedded import glyphs
from anyshot.data.embedded.glyphs import is_number

KINDS = ("invert_colours", "keep_edges", "filter_randomly", "crop_closely", "turn")


def random_images(seed: int, height: int = 32, width: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (4, height, width, 3), np.uint8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(32, 32), (16, 24)])
def test_a_transformation_keeps_shape_and_type_and_changes_images_alike(kind, size):
    transform = getattr(unfamiliar, kind)(np.random.default_rng(3))
    images = random_images(0, *size)
    changed = transform(images)
    assert changed.shape == images.shape
    assert changed.dtype == np.uint8
    assert (changed != images).any()
    if kind != "filter_randomly":  # its contrast is that of the whole set
        np.testing.assert_array_equal(transform(images[1:2]), changed[1:2])


def test_edges_of_a_plain_image_are_black_or_white_and_inverting_twice_restores():
    plain = np.full((1, 8, 8, 3), 77, np.uint8)
    edges = unfamiliar.keep_edges(np.random.default_rng(0))(plain)
    assert set(np.unique(edges)) <= {0, 255}
    images = random_images(1)
    order = np.random.default_rng(5).permutation(3)
    expected = 255 - images[..., order]
    actual = unfamiliar.invert_colours(np.random.default_rng(5))(images)
    np.testing.assert_array_equal(actual, expected)


def test_half_of_the_tasks_are_changed_in_the_same_way_in_support_and_query(monkeypatch):
    marks = []

    def draw(rng):
        marks.append(int(rng.integers(1, 200)))
        return lambda images: np.full_like(images, marks[-1])

    monkeypatch.setattr(tasks, "draw_transformation", draw)
    settings = TaskSettings(way=2, shots="fixed:1", query=1)
    stream = TaskStream(make_imageset(), "train", settings, augment=("unfamiliar",))
    plain = TaskStream(make_imageset(), "train", settings)
    for index in range(60):
        before = len(marks)
        task = stream.task(index)
        if len(marks) > before:
            assert set(task.support.unique().tolist()) == {marks[-1]}
            assert set(task.query.unique().tolist()) == {marks[-1]}
        else:
            np.testing.assert_array_equal(task.support, plain.task(index).support)
    assert 18 <= len(marks) <= 42


def test_letters_are_the_glyphs_without_numbers(monkeypatch):
    splits = glyphs.glyph_splits()
    blank = {name: np.zeros((2, 8, 8, 3), np.uint8) for names in splits.values() for name in names}
    images = ImageSet.from_arrays("glyphs", blank, splits)  # drawing them would take seconds
    monkeypatch.setattr(glyphs, "open_glyphs", lambda: images)
    letters = open_images("letters")
    for split, members in images.splits.items():
        names = {images.classes[c] for c in members if not is_number(images.classes[c])}
        assert {letters.classes[c] for c in letters.splits[split]} == names
    assert is_number("0034 DIGIT FOUR")
    assert is_number("0ED2 LAO DIGIT TWO")
    assert not is_number("0041 LATIN CAPITAL LETTER A")
    assert len(letters.splits["train"]) < len(images.splits["train"])
