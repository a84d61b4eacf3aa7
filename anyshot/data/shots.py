"""Shot rules: how many support images each class of a task has.

A shot rule is a function `(rng, way, least, most) -> sizes`, with `sizes` an int array [way] of
numbers from `least` to `most`. `SHOT_RULES` lists the rules by name; `TaskSettings.shots` chooses
one with its range, for example "any-shot:1-50".

The rules of the paper are `any_shot`, `class_imbalance`, `task_imbalance` and `fixed`. `linear`,
`step`, `long_tailed` and `random_sizes` are those of studies of class imbalance in few-shot
learning (Ochal et al. 2021, https://arxiv.org/abs/2101.02523).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anyshot.core.errors import CodeError
from anyshot.core.random import Rng

ShotRule = Callable[[Rng, int, int, int], np.ndarray]


def draw_sizes(rule: ShotRule, rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """The sizes that a shot rule draws, int [way], after a check: the rule may be your own."""
    sizes = np.asarray(rule(rng, way, least, most))
    if sizes.shape != (way,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise CodeError(
            f"The shot rule {getattr(rule, '__name__', rule)!r} returned {sizes.tolist()} for "
            f"{way} classes; expected {way} integers of at least 1."
        )
    return sizes


def any_shot(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """With probability 1/2 use `class_imbalance`, otherwise `task_imbalance`.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness of the task.
    way : int
        Number of classes.
    least, most : int
        Smallest and largest number of support images of a class.

    Returns
    -------
    ndarray of int, shape [way]
        Support images of each class.
    """
    return (class_imbalance if rng.random() < 0.5 else task_imbalance)(rng, way, least, most)


def class_imbalance(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Draw N_c ~ U{least..most} independently for each class (arguments as in `any_shot`)."""
    return rng.integers(least, most, size=way, endpoint=True)


def task_imbalance(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Draw one number from U{least..most} for all classes (arguments as in `any_shot`)."""
    return np.full(way, rng.integers(least, most, endpoint=True))


def fixed(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Give every class `most` images (arguments as in `any_shot`).

    >>> fixed(np.random.default_rng(0), 3, 5, 5).tolist()
    [5, 5, 5]
    """
    return np.full(way, most)


def linear(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Spread the sizes evenly from `least` to `most`, in random order.

    >>> sorted(linear(np.random.default_rng(0), 5, 1, 9).tolist())
    [1, 3, 5, 7, 9]
    """
    sizes = np.rint(np.linspace(least - 0.49, most + 0.49, way))  # equal bins, also at both ends
    return rng.permutation(sizes.astype(np.int64))


def step(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Give minority classes `least` images and majority classes `most`, in random order.

    The number of minority classes is drawn from U{1..way-1}.
    """
    minority = rng.integers(1, way)
    return rng.permutation(np.where(np.arange(way) < minority, least, most))


def long_tailed(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Give the class of rank r the size most · r^-a, in random order.

    The exponent a = ln(most / least) / ln(way) gives the last class `least` images.

    >>> sorted(long_tailed(np.random.default_rng(0), 5, 2, 50).tolist())
    [2, 3, 6, 12, 50]
    """
    exponent = np.log(most / least) / np.log(way)
    sizes = np.rint(most * np.arange(1, way + 1) ** -exponent)
    return rng.permutation(sizes.astype(np.int64))


def random_sizes(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Draw sizes uniformly from all that have the same total.

    The total is way · (least + most) / 2, rounded down. Unlike with `class_imbalance`, tasks
    differ only in how uneven they are, not in how many images they have.
    """
    total = way * (least + most) // 2
    # Rejection sampling: the last class gets the remaining images, if their number is in range.
    while True:
        sizes = rng.integers(least, most, size=way, endpoint=True)
        sizes[-1] = total - sizes[:-1].sum()
        if least <= sizes[-1] <= most:
            return sizes
