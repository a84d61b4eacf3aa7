"""How the classes of a set that has no splits of its own are dealt to train, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anyshot.core.errors import AnyshotError

SplitPolicy = Callable[
    [str, int], Mapping[str, float]
]  #: name of a set and its number of classes -> each split's share


def default_shares(name: str, classes: int) -> dict[str, float]:
    """60/20/20, where nothing more is known."""
    return {"train": 0.6, "validation": 0.2, "test": 0.2}


def test_only(name: str, classes: int) -> dict[str, float]:
    """A set that nothing is learned from."""
    return {"test": 1.0}


def training_shares(way: int) -> SplitPolicy:
    """At least `way` classes in each split: 60/20/20 where that is enough; three splits from 3·way classes on; from
    2·way on, half to learn from and half to test on, and none to validate on.

    >>> to_learn(3)("pictures", 6)
    {'train': 0.5, 'test': 0.5}
    """

    def deal(name: str, classes: int) -> dict[str, float]:
        _check(name, classes, way)
        if classes < 3 * way:
            half = classes // 2 / classes
            return {"train": 1 - half, "test": half}
        fifth = max(way, round(0.2 * classes)) / classes
        return {"train": 1 - 2 * fifth, "validation": fifth, "test": fifth}

    return deal


def validation_shares(way: int) -> SplitPolicy:
    """Half to validate on and half to test on: a set that is not learned from."""

    def deal(name: str, classes: int) -> dict[str, float]:
        _check(name, classes, way)
        half = classes // 2 / classes
        return {"validation": 1 - half, "test": half}

    return deal


def _check(name: str, classes: int, way: int) -> None:
    if classes < 2 * way:
        lower = f", or ask for --way {classes // 2}" if classes >= 4 else ""
        raise AnyshotError(
            f"{name} has {classes} classes, but {way}-way tasks need at least {2 * way}: {way} to learn from and {way} "
            f"others to be tested on (from {3 * way} on, validation also chooses the parameters). Add classes{lower}."
        )


def split_by_seed(
    classes: Sequence[str], shares: Mapping[str, float], seed: int
) -> dict[str, list[str]]:
    """Deal classes to splits in the given shares (the last takes the rest); the same seed, the same split.

    >>> split_by_seed("abcde", {"train": 0.6, "validation": 0.2, "test": 0.2}, seed=0)
    {'train': ['a', 'd', 'e'], 'validation': ['c'], 'test': ['b']}
    """
    if seed < 0:
        raise AnyshotError(f"The seed of a split is {seed}; a seed is a whole number from 0 on.")
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    order = rng.permutation(len(classes))
    ends = np.rint(np.cumsum(list(shares.values())) * len(classes)).astype(int)
    ends[-1] = len(classes)
    dealt, begin = {}, 0
    for split, end in zip(shares, ends, strict=True):
        dealt[split] = [classes[c] for c in sorted(order[begin:end])]
        begin = end
    return {split: members for split, members in dealt.items() if members}
