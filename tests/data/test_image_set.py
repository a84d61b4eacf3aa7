from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from anyshot.core.errors import AnyshotError, DataError
from anyshot.data import ImageSet
from anyshot.data.class_splits import split_by_seed


def pixels(n: int, value: int = 0, side: int = 8) -> np.ndarray:
    return np.full((n, side, side, 3), value, np.uint8)


@pytest.fixture
def pets() -> ImageSet:
    arrays = {"cat": pixels(3, 1), "dog": pixels(2, 2), "eel": pixels(4, 3)}
    return ImageSet.from_arrays(
        "pets", arrays, {"train": ["eel", "cat"], "test": ["dog"]}, {"seed": 7}
    )


def test_classes_are_views_into_one_array(pets):
    assert pets.size == (8, 8)
    assert pets.counts.tolist() == [3, 2, 4]
    assert len(pets) == 9
    assert (pets.images_of("dog") == 2).all()
    assert np.shares_memory(pets.images_of(1), pets.images)
    assert pets.splits == {"train": (2, 0), "test": (1,)}
    assert "train 2" in repr(pets)


def test_images_cannot_be_written_to(pets):
    with pytest.raises(ValueError, match="read-only"):
        pets.images_of(0)[0] = 5


def test_a_saved_set_opens_as_it_was_and_stays_on_disk(pets, tmp_path):
    again = pets.save(tmp_path / "pets")
    assert isinstance(again.images.base, np.memmap)
    assert np.array_equal(again.images, pets.images)
    assert (again.classes, again.splits, again.notes, again.name) == (
        pets.classes,
        pets.splits,
        pets.notes,
        pets.name,
    )
    again.check()
    pets.check()


def test_saved_set_is_pickled_as_its_path(pets, tmp_path):
    saved = pets.save(tmp_path / "pets")
    assert len(pickle.dumps(saved)) < 400
    assert pickle.loads(pickle.dumps(replace(saved, splits={}))).splits == {}
    for original in (pets, saved):
        again = pickle.loads(pickle.dumps(original))
        assert np.array_equal(again.images, pets.images)
        assert again.splits == pets.splits


def test_a_set_on_disk_is_mapped_and_not_read(tmp_path, pets):
    saved = pets.save(tmp_path / "pets")
    assert isinstance(saved.images, np.memmap)
    assert saved.images.filename == (tmp_path / "pets" / "images.npy").resolve()


@pytest.mark.parametrize(
    ("arrays", "splits", "words"),
    [
        ({}, {}, "no classes"),
        ({"a": pixels(1), "b": pixels(1, side=9)}, {}, "differ in image size"),
        ({"a": pixels(0), "b": pixels(1)}, {}, "one is empty"),
        ({"a": pixels(1).astype(float)}, {}, "must be uint8"),
        ({"a": pixels(1)[..., :2]}, {}, "must be uint8"),
        ({"a": pixels(1)[0]}, {}, "must be uint8"),
        ({"a": pixels(1)}, {"holdout": ["a"]}, "'holdout'.*train, validation, test"),
        ({"a": pixels(1)}, {"val": ["a"], "validation": ["a"]}, "two splits"),
        ({1: pixels(1)}, {}, "name every class"),
        ({"a": pixels(1)}, {"train": ["b"]}, "name 'b'"),
        ({"a": pixels(1)}, {"train": ["a"], "test": ["a"]}, "two splits"),
    ],
)
def test_inconsistent_arrays_and_splits_are_refused(arrays, splits, words):
    with pytest.raises(DataError, match=words):
        ImageSet.from_arrays("odd", arrays, splits)


def test_splits_beyond_the_classes_are_refused():
    with pytest.raises(DataError, match="beyond"):
        ImageSet("odd", pixels(1), ("a",), np.array([0, 1]), {"train": (1,)})


def damage_pixels(folder):
    data = bytearray((folder / "images.npy").read_bytes())
    data[-1] ^= 1
    (folder / "images.npy").write_bytes(data)


def test_a_changed_pixel_is_found_by_check(pets, tmp_path):
    pets.save(tmp_path / "pets")
    damage_pixels(tmp_path / "pets")
    with pytest.raises(DataError, match="do not match their checksum"):
        ImageSet.open(tmp_path / "pets").check()


def truncate(folder):
    data = (folder / "images.npy").read_bytes()
    (folder / "images.npy").write_bytes(data[:-100])


def rewrite(**changes):
    def change(folder):
        about = json.loads((folder / "set.json").read_text()) | changes
        (folder / "set.json").write_text(json.dumps(about))

    return change


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (truncate, "damaged"),
        (lambda folder: (folder / "images.npy").unlink(), "damaged"),
        (lambda folder: (folder / "set.json").unlink(), "no set.json"),
        (lambda folder: (folder / "set.json").write_text("{"), "set.json"),
        (lambda folder: (folder / "set.json").write_text("[]"), "another format"),
        (rewrite(format=99), "another format"),
        (rewrite(starts=[0, 1]), "damaged"),
        (rewrite(splits={"train": [99]}), "damaged"),
        (rewrite(splits=5), "damaged"),
        (rewrite(kind="jpegs"), "damaged"),
        (rewrite(kind=[]), "damaged"),
        (rewrite(name=None), "damaged"),
        (rewrite(notes=[]), "damaged"),
        (rewrite(notes={"skipped": 5}), "damaged"),
        (rewrite(splits={"train": [0.5]}), "damaged"),
        (rewrite(classes=["cat", "cat", "eel"]), "damaged"),
        (rewrite(classes=[1, 2, 3]), "damaged"),
        (lambda folder: (folder / "images.npy").write_bytes(b""), "damaged"),
        (
            lambda folder: (folder / "images.npy").write_bytes(
                b"\x93NUMPY\1\0\xff\x20" + b"-" * 8447
            ),
            "damaged",
        ),
    ],
)
def test_a_damaged_folder_is_named(pets, tmp_path, harm, words):
    folder = tmp_path / "pets"
    pets.save(folder)
    harm(folder)
    with pytest.raises(AnyshotError, match=words):
        ImageSet.open(folder)


def test_split_by_seed_assigns_every_class_once():
    classes = [f"c{i}" for i in range(100)]
    shares = {"train": 0.6, "validation": 0.15, "test": 0.25}
    split = split_by_seed(classes, shares, 3)
    assert {name: len(members) for name, members in split.items()} == {
        "train": 60,
        "validation": 15,
        "test": 25,
    }
    assert sorted(c for members in split.values() for c in members) == sorted(classes)
    assert split == split_by_seed(classes, shares, 3)
    assert split != split_by_seed(classes, shares, 4)


def test_the_checksum_is_that_of_names_sizes_and_pixels_however_split_or_stored(pets, tmp_path):
    saved = pets.save(tmp_path / "pets")
    assert saved.checksum == pets.checksum
    assert (
        replace(saved, splits={}).checksum
        == pickle.loads(pickle.dumps(saved)).checksum
        == pets.checksum
    )
    moved = {
        "cat": pixels(3, 1),
        "dog": pixels(1, 2),
        "eel": np.concatenate([pixels(1, 2), pixels(4, 3)]),
    }
    renamed = {"cat": pixels(3, 1), "fox": pixels(2, 2), "eel": pixels(4, 3)}
    painted = {"cat": pixels(3, 1), "dog": pixels(2, 2), "eel": pixels(4, 4)}
    others = [ImageSet.from_arrays("pets", arrays, {}) for arrays in (moved, renamed, painted)]
    assert np.array_equal(others[0].images, pets.images)
    assert len({pets.checksum, *(other.checksum for other in others)}) == 4


def test_the_checksum_of_a_saved_set_reads_no_pixel(pets, tmp_path):
    saved = pets.save(tmp_path / "pets")
    damage_pixels(tmp_path / "pets")
    assert ImageSet.open(tmp_path / "pets").checksum == saved.checksum


def test_kind_decides_about_mirroring_and_is_saved(pets, tmp_path):
    assert (pets.kind, pets.flip_invariant) == ("photographs", True)
    letters = replace(pets, kind="characters").save(tmp_path / "letters")
    assert (letters.kind, letters.flip_invariant) == ("characters", False)
    assert pickle.loads(pickle.dumps(replace(pets, kind="signs"))).kind == "signs"
    with pytest.raises(DataError, match=r"jpegs.*photographs, drawings"):
        replace(pets, kind="jpegs")


def test_grey_images_become_three_equal_channels():
    grey = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
    for given in (grey, grey[..., None]):
        images = ImageSet.from_arrays("grey", {"a": given}, {})
        assert images.images.shape == (2, 4, 5, 3)
        assert all((images.images[..., channel] == grey).all() for channel in range(3))


def test_val_and_valid_are_names_of_validation():
    arrays = {label: pixels(1) for label in "abc"}
    images = ImageSet.from_arrays("pets", arrays, {"train": ["a"], "val": ["b"], "valid": ["c"]})
    assert images.splits == {"train": (0,), "validation": (1, 2)}


def test_default_split_of_arrays_is_that_of_a_folder():
    arrays = {label: pixels(1) for label in "abcdefghij"}
    images = ImageSet.from_arrays("pets", arrays)
    dealt = split_by_seed(list(arrays), {"train": 0.6, "validation": 0.2, "test": 0.2}, seed=0)
    assert {
        split: [images.classes[c] for c in members] for split, members in images.splits.items()
    } == dealt
