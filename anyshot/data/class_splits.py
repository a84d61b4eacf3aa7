"""Assign the classes of an image set without splits to train, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anyshot.core.errors import DataError, SettingsError

#: (name of the set, number of classes) -> share of each split
SplitPolicy = Callable[[str, int], Mapping[str, float]]


def default_shares(name: str, classes: int) -> dict[str, float]:
    """60/20/20 % of the classes."""
    return {"train": 0.6, "validation": 0.2, "test": 0.2}


def test_only(name: str, classes: int) -> dict[str, float]:
    """All classes in the test split."""
    return {"test": 1.0}


def training_shares(way: int) -> SplitPolicy:
    """At least `way` classes in each split, for a set to train on.

    60/20/20 % if that is enough; three splits if there are 3·way classes; with 2·way classes half
    for training, half for testing and none for validation.

    >>> training_shares(3)("pets", 6)
    {'train': 0.5, 'test': 0.5}
    """

    def shares(name: str, classes: int) -> dict[str, float]:
        _check_class_count(name, classes, way)
        if classes < 3 * way:
            half = classes // 2 / classes
            return {"train": 1 - half, "test": half}
        fifth = max(way, round(0.2 * classes)) / classes
        return {"train": 1 - 2 * fifth, "validation": fifth, "test": fifth}

    return shares


def validation_shares(way: int) -> SplitPolicy:
    """Half for validation and half for testing, for a set that is not trained on."""

    def shares(name: str, classes: int) -> dict[str, float]:
        _check_class_count(name, classes, way)
        half = classes // 2 / classes
        return {"validation": 1 - half, "test": half}

    return shares


def _check_class_count(name: str, classes: int, way: int) -> None:
    """Refuse fewer than two disjoint sets of `way` classes."""
    if classes < 2 * way:
        lower = f" or use --way {classes // 2}" if classes >= 4 else ""
        raise DataError(
            f"{name} has {classes} classes, but {way}-way tasks need at least {2 * way}: {way} for "
            f"training and {way} others for testing ({3 * way} with validation). Add "
            f"classes{lower}."
        )


def split_by_seed(
    classes: Sequence[str], shares: Mapping[str, float], seed: int
) -> dict[str, list[str]]:
    """Assign classes to splits at random, in the given shares; equal seeds give equal splits.

    >>> split_by_seed("abcde", {"train": 0.6, "validation": 0.2, "test": 0.2}, seed=0)
    {'train': ['a', 'd', 'e'], 'validation': ['c'], 'test': ['b']}
    """
    if seed < 0:
        raise SettingsError(f"The seed of a split is {seed}; it must be 0 or more.")
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    order = rng.permutation(len(classes))
    ends = np.rint(np.cumsum(list(shares.values())) * len(classes)).astype(int)
    ends[-1] = len(classes)
    splits: dict[str, list[str]] = {}
    start = 0
    for split, end in zip(shares, ends, strict=True):
        members = [classes[c] for c in sorted(order[start:end])]
        if members:
            splits[split] = members
        start = end
    return splits
