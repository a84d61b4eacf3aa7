"""Splits a set of images into parts, for as many threads as are free.

The parts depend only on the number of images and the work for each, and their sums are added in
order. So results have the same bits for any number of threads.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anyshot.core.parallel.threads import map_parts

R = TypeVar("R")

#: multiplications (about 0.2 ms of work) from which a second thread pays
WORK_PER_PART = 1 << 22
MOST_PARTS = 16  #: a power of two, like the number of cores of most machines


@functools.cache
def split(n: int, work: int) -> tuple[slice, ...]:
    """Split n images, each of ``work`` multiplications, into 1, 2, 4 … nearly equal parts.

    Four times the work gives twice as many parts, because each part has its own sums.

    >>> split(5, work=WORK_PER_PART)
    (slice(0, 2, None), slice(2, 5, None))
    >>> split(5, work=10)
    (slice(0, 5, None),)
    """
    parts = 1
    while 2 * parts <= min(MOST_PARTS, n) and n * work >= 2 * WORK_PER_PART * parts**2:
        parts *= 2
    ends = [n * k // parts for k in range(parts + 1)]
    return tuple(slice(*pair) for pair in itertools.pairwise(ends))


def map_over_parts(function: Callable[[slice], R], n: int, work: int) -> list[R]:
    """``function(part)`` of each part of n images."""
    return map_parts(function, split(n, work))


def total(results: Sequence[Any]) -> Any:
    """The sum, from left to right."""
    return functools.reduce(operator.add, results)
