"""Shot rules: how many support images each class of a task has.

A shot rule is a function `(rng, way, least, most) -> int array [way]`. `SHOT_RULES` lists them by name;
`TaskSettings.shots` chooses one with its range, for example "any-shot:1-50".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anyshot.core.random import Rng

ShotRule = Callable[[Rng, int, int, int], np.ndarray]


def any_shot(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """With probability 1/2 `class_imbalance`, otherwise `task_imbalance` (the paper's rule)."""
    return (class_imbalance if rng.random() < 0.5 else task_imbalance)(rng, way, least, most)


def class_imbalance(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Draw N_c ~ U{least..most} independently for each class."""
    return rng.integers(least, most, size=way, endpoint=True)


def task_imbalance(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Draw one number from U{least..most} for all classes."""
    return np.full(way, rng.integers(least, most, endpoint=True))


def fixed(rng: Rng, way: int, least: int, most: int) -> np.ndarray:
    """Give every class the same number of images, `most`."""
    return np.full(way, most)
