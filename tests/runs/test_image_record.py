from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from anyshot.data import ImageSet
from anyshot.runs.image_record import SetRecord, apply_record

SPLITS = {"train": ["ape", "bee"], "validation": ["cat"], "test": ["dog"]}


def pixels(seed: int, number: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (number, 8, 8, 3), np.uint8)


def arrays() -> dict[str, np.ndarray]:
    return {label: pixels(seed) for seed, label in enumerate(["ape", "bee", "cat", "dog"])}


def zoo(
    changes: dict[str, np.ndarray] | None = None, name: str = "zoo", **splits: list[str]
) -> ImageSet:
    return ImageSet.from_arrays(name, arrays() | (changes or {}), {**SPLITS, **splits})


def names(images: ImageSet) -> dict[str, list[str]]:
    return {split: [images.classes[c] for c in members] for split, members in images.splits.items()}


@pytest.fixture
def record() -> SetRecord:
    return SetRecord.from_images(zoo(), "zoo", None)


def test_record_is_read_back_from_json(record):
    assert SetRecord.from_dict(json.loads(json.dumps(asdict(record)))) == record


def test_new_classes_are_test_classes_and_others_keep_their_split(record):
    mixed = {"train": ["dog", "ant"], "validation": ["ape"], "test": ["bee", "cat"]}
    changed = ImageSet.from_arrays("zoo", {"ant": pixels(9)} | arrays(), mixed)
    seen, moved = apply_record([record], changed)
    assert names(seen) == SPLITS | {"test": ["dog", "ant"]}
    assert moved == []


def test_renamed_training_class_is_recognised_in_any_set(record):
    for name in ("zoo", "elsewhere"):
        images = ImageSet.from_arrays(
            name, {"monkey": arrays()["ape"], "new": pixels(9)}, {"test": ["monkey", "new"]}
        )
        seen, moved = apply_record([record], images)
        assert names(seen) == {"test": ["new"], "train": ["monkey"]}
        assert moved == ["monkey"]


def test_set_that_is_only_validated_on_has_no_training_classes(record):
    images = ImageSet.from_arrays("elsewhere", {"monkey": arrays()["ape"]}, {"test": ["monkey"]})
    assert apply_record([replace(record, learned=False)], images)[1] == []


def test_classes_with_equal_images_from_the_start_keep_their_split():
    images = zoo({"dog": arrays()["ape"]})
    seen, moved = apply_record([SetRecord.from_images(images, "zoo", None)], images)
    assert names(seen) == SPLITS
    assert moved == []


def test_difference_names_what_has_changed(record):
    one_pixel = arrays()["bee"]
    one_pixel[3, 0, 0, 0] ^= 1
    without = ImageSet.from_arrays(
        "zoo", {k: v for k, v in arrays().items() if k != "cat"}, {"train": ["ape"]}
    )
    assert record.difference(zoo()) == ""
    assert record.difference(zoo({"eel": pixels(9)})) == ""
    assert record.difference(zoo({"dog": pixels(9, 3)})) == ""  # nothing was learned from it
    assert record.difference(without) == "its class 'cat' is missing"
    assert record.difference(zoo({"ape": pixels(0, 21)})) == "its class 'ape' has 21 images, not 20"
    assert (
        record.difference(zoo({"ape": pixels(9)})) == "the images of its class 'ape' are different"
    )
    assert record.difference(zoo({"bee": one_pixel})) in (
        "the images of its class 'bee' are different",
        "some of its images are different",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"splits": {"train": ["nobody"]}},
        {"splits": 3},
        {"counts": {}},
        {"sums": None},
        {"more": 1},
        {"splits": {"tests": []}},
        {"learned": "yes"},
    ],
)
def test_invalid_record_is_refused(record, change):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        SetRecord.from_dict({**asdict(record), **change})
