"""A set of images in parts, for as many threads as are free.

Where the parts begin depends on the number of images and the work alone, and their sums are added in their order. So no
result depends on the number of threads, to the last bit.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anyshot.core.parallel.threads import map_parts

R = TypeVar("R")

WORTH = (
    1 << 22
)  #: multiplications, about 0.2 ms with all around them, for which it is worth to wake a thread
MOST = 16  #: parts; a power of two, as the cores of most machines


@functools.cache
def split(n: int, each: int) -> tuple[slice, ...]:
    """n images of so many multiplications each in 1, 2, 4 … nearly equal parts; twice as many for four times the work,
    since each part has its own sums.

    >>> split(5, each=WORTH)
    (slice(0, 2, None), slice(2, 5, None))
    >>> split(5, each=10)
    (slice(0, 5, None),)
    """
    parts = 1
    while 2 * parts <= min(MOST, n) and n * each >= 2 * WORTH * parts**2:
        parts *= 2
    ends = [n * k // parts for k in range(parts + 1)]
    return tuple(slice(*pair) for pair in itertools.pairwise(ends))


def in_parts(loop: Callable[[slice], R], n: int, each: int) -> list[R]:
    """What the loop gives for each part."""
    return map_parts(loop, split(n, each))


def total(results: Sequence[Any]) -> Any:
    """The sum, from left to right."""
    return functools.reduce(operator.add, results)
