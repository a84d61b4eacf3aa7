from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.data.class_splits import split_by_seed, training_shares, validation_shares


def sizes(dealer, classes: int) -> dict[str, int]:
    names = [f"class {c}" for c in range(classes)]
    return {
        split: len(members)
        for split, members in split_by_seed(names, dealer("x", classes), 0).items()
    }


@pytest.mark.parametrize("way", [2, 3, 5, 10])
def test_every_split_has_at_least_way_classes_and_all_are_assigned(way):
    for classes in range(2 * way, 80):
        actual = sizes(training_shares(way), classes)
        assert sum(actual.values()) == classes
        assert min(actual.values()) >= way
        assert ("validation" in actual) == (classes >= 3 * way)
        actual = sizes(validation_shares(way), classes)
        assert set(actual) == {"validation", "test"}
        assert min(actual.values()) >= way


def test_many_classes_get_the_default_shares():
    assert sizes(training_shares(5), 100) == {"train": 60, "validation": 20, "test": 20}


@pytest.mark.parametrize(("classes", "ending"), [(5, "--way 2"), (3, r"Add classes\.")])
def test_too_few_classes_are_refused_with_what_is_needed(classes, ending):
    with pytest.raises(
        AnyshotError,
        match=rf"pets has {classes} classes, but 3-way tasks need at least 6: .*{ending}",
    ):
        training_shares(3)("pets", classes)
