from __future__ import annotations

import hashlib
import unicodedata

import numpy as np
import pytest

from anyshot.data import open_images
from anyshot.data.embedded.glyph_shapes import BOX, EDGE, distance_field, faces_with, silhouette
from anyshot.data.embedded.glyphs import (
    COUNT,
    SHARES,
    SIDE,
    build_glyphs,
    characters,
    draw_character,
)
from anyshot.data.image_set import ImageSet


@pytest.fixture(scope="module")
def pictures() -> dict[str, np.ndarray]:
    """A tenth of the classes, drawn in full."""
    return {character: draw_character(character) for character in characters()[::10]}


def test_there_are_at_least_five_hundred_characters_of_many_scripts():
    text = characters()
    assert len(set(text)) == len(text) >= 500
    names = " ".join(unicodedata.name(character) for character in text)
    for script in (
        "LATIN",
        "GREEK",
        "CYRILLIC",
        "ARMENIAN",
        "GEORGIAN",
        "HEBREW",
        "ARABIC",
        "LAO",
        "TIFINAGH",
    ):
        assert script in names
    assert not any(unicodedata.combining(character) for character in text)


def test_no_two_characters_look_alike():
    def blur_glyph(character: str) -> np.ndarray:
        from scipy.ndimage import gaussian_filter

        shape = gaussian_filter(
            silhouette(character, faces_with(character)[0]).astype(np.float32), 5.5
        )[::4, ::4].ravel()
        return shape / np.linalg.norm(shape)

    shapes = np.stack([blur_glyph(character) for character in characters()])
    alike = shapes @ shapes.T - np.eye(len(shapes))
    assert alike.max() < 0.89


def test_every_character_has_ink_and_a_font_face():
    for character in characters()[::7]:
        faces = faces_with(character)
        assert faces
        missing = silhouette("\U000f0000", faces[0])
        assert not np.array_equal(silhouette(character, faces[0]), missing)


def test_a_field_is_positive_inside_and_negative_outside():
    field = distance_field("•", "DejaVuSans")
    assert field.shape == (EDGE, EDGE)
    assert field[EDGE // 2, EDGE // 2] == pytest.approx(BOX / 2, abs=1.5)
    assert field[EDGE // 2, 0] == pytest.approx((BOX - EDGE) / 2, abs=1.5)


def test_a_character_without_ink_is_black():
    assert not silhouette(" ", "DejaVuSans").any()


def test_images_depend_on_the_character_alone():
    once, twice = draw_character("Ж"), draw_character("Ж")
    assert once.shape == (COUNT, SIDE, SIDE, 3)
    assert once.dtype == np.uint8
    assert np.array_equal(once, twice)
    assert not np.array_equal(once, draw_character("Я"))
    assert len({picture.tobytes() for picture in once}) == COUNT


def test_the_number_of_workers_changes_no_byte(tmp_path):
    text = characters()[:40:5]
    digests = set()
    for workers in (1, 2):
        build_glyphs(tmp_path / str(workers), text, count=9, workers=workers)
        digests.add(
            hashlib.sha256((tmp_path / str(workers) / "images.npy").read_bytes()).hexdigest()
        )
        ImageSet.open(tmp_path / str(workers)).check()
    assert len(digests) == 1


def test_the_set_is_drawn_once_and_split_by_class(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path))
    monkeypatch.setattr("anyshot.data.embedded.glyphs.characters", lambda: characters()[:40])
    monkeypatch.setattr("anyshot.data.embedded.glyphs.build_glyphs.__defaults__", (3, 2))
    glyphs = open_images("glyphs")
    assert {split: len(members) for split, members in glyphs.splits.items()} == {
        split: round(40 * share) for split, share in SHARES.items()
    }
    assert glyphs.counts.tolist() == [3] * 40
    monkeypatch.setattr("anyshot.data.embedded.glyphs.build_glyphs", None)
    assert open_images("glyphs").classes == glyphs.classes


def test_one_shot_nearest_neighbour_in_pixels_is_near_chance(pictures):
    rng = np.random.default_rng(0)
    flat = [array.reshape(len(array), -1).astype(np.float32) for array in pictures.values()]
    hits = []
    for _ in range(600):
        chosen = rng.permutation(len(flat))[:5]
        drawn = np.stack([flat[c][rng.permutation(COUNT)[:6]] for c in chosen])  # [5, 6, pixels]
        support, query = drawn[:, 0], drawn[:, 1:].reshape(25, -1)
        nearest = ((support**2).sum(1) - 2 * query @ support.T).argmin(1)
        hits.append((nearest == np.repeat(np.arange(5), 5)).mean())
    assert 0.17 < np.mean(hits) < 0.27


def test_most_pictures_have_contrast(pictures):
    spread = np.concatenate([array.reshape(len(array), -1).std(1) for array in pictures.values()])
    assert np.mean(spread > 20) > 0.95
