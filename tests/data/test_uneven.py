import numpy as np
import pytest

from anyshot.core.errors import DataError
from anyshot.data import ImageSet
from anyshot.data.uneven import make_uneven


def numbered_set(classes: int = 8, each: int = 60) -> ImageSet:
    """Image n of class c has the grey value n, and c in its first pixel."""
    arrays = {}
    for c in range(classes):
        numbers = np.arange(each, dtype=np.uint8)
        arrays[f"class {c}"] = numbers[:, None, None, None].repeat(4, 1).repeat(4, 2).repeat(3, 3)
        arrays[f"class {c}"][:, 0, 0] = c
    names = list(arrays)
    return ImageSet.from_arrays("toy", arrays, {"train": names[:5], "val": names[5:]}, kind="signs")


def test_sizes_follow_the_rule_and_other_splits_stay():
    even = numbered_set()
    uneven = make_uneven(even, "long-tailed:2-50")
    assert sorted(uneven.counts[:5].tolist()) == [2, 3, 6, 12, 50]
    assert uneven.counts[5:].tolist() == [60, 60, 60]
    assert uneven.splits == even.splits
    assert (uneven.name, uneven.kind) == ("toy-long-tailed", "signs")


def test_images_are_different_images_of_their_class():
    uneven = make_uneven(numbered_set(), "linear:10-50")
    for c in range(5):
        images = uneven.images_of(c)
        assert (images[:, 0, 0] == c).all()
        numbers = images[:, 1, 1, 0]
        assert len(set(numbers.tolist())) == len(numbers)


def test_seeds_give_other_sizes_and_images_and_are_reproducible():
    first, again, other = (make_uneven(numbered_set(), "linear:10-50", seed=s) for s in (0, 0, 1))
    assert first.checksum == again.checksum
    assert first.counts.tolist() != other.counts.tolist()


def test_a_small_class_keeps_all_its_images():
    assert make_uneven(numbered_set(each=20), "fixed:50").counts.tolist() == [20] * 8


def test_a_split_without_classes_is_refused():
    with pytest.raises(DataError, match="test"):
        make_uneven(numbered_set(), "linear:1-9", split="test")


def test_an_uneven_set_can_be_saved_and_says_how_it_was_made(tmp_path):
    saved = make_uneven(numbered_set(), "step:5-50", split="val", seed=3).save(tmp_path / "set")
    assert saved.notes["uneven"] == {"shots": "step:5-50", "split": "validation", "seed": 3}
