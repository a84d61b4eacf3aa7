"""Finds the same image twice, by its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-5  # distance of unit-length features; the batch size changes them by less
SHOWN = 5  # pairs that a message names


def find_matches(features: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """For each row [n, d], the index of the first equal row of `known` [m, d], or −1.

    Rows are sorted along a random direction, so that only rows with nearly the same position are
    compared.
    """
    rows, others = _unit_rows(features), _unit_rows(known)
    direction: NDArray[np.float64] = np.random.default_rng(0).standard_normal((rows.shape[1],))
    direction = direction / np.linalg.norm(direction)
    order = (others @ direction).argsort(kind="stable")
    sorted_positions = (others @ direction)[order]
    positions = rows @ direction
    starts = np.searchsorted(sorted_positions, positions - TOLERANCE)
    ends = np.searchsorted(sorted_positions, positions + TOLERANCE, side="right")
    matches = np.full(len(rows), -1, np.int64)
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        near = order[start:end]
        equal = near[np.linalg.norm(others[near] - rows[i], axis=1) <= TOLERANCE]
        if len(equal):
            matches[i] = equal.min()
    return matches


Pairs = list[tuple[int, int]]


def find_repeated(features: NDArray[Any], labels: NDArray[Any]) -> tuple[Pairs, Pairs]:
    """Pairs of equal rows, as indices (first, later): with different labels, and with the same."""
    pairs = [(int(a), b) for b, a in enumerate(find_matches(features, features)) if a != b]
    return (
        [(a, b) for a, b in pairs if labels[a] != labels[b]],
        [(a, b) for a, b in pairs if labels[a] == labels[b]],
    )


def describe_conflicts(
    conflicts: Sequence[tuple[int, int]], names: Sequence[str], labels: Sequence[str]
) -> str:
    """One sentence on images with two labels."""
    pairs = [f"{names[a]} ({labels[a]}) and {names[b]} ({labels[b]})" for a, b in conflicts[:SHOWN]]
    more = f"; and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
    return f"The same image has two labels: {'; '.join(pairs)}{more}. Remove one of each pair."


def describe_copies(copies: Sequence[tuple[int, int]], names: Sequence[str]) -> str:
    """One sentence on images that are in a class twice."""
    pairs = [f"{names[b]} is {names[a]}" for a, b in copies[:SHOWN]]
    more = f"; and {len(copies) - SHOWN} more" if len(copies) > SHOWN else ""
    images = "1 image is a copy" if len(copies) == 1 else f"{len(copies)} images are copies"
    return (
        f"{images} of another in the same class: {'; '.join(pairs)}{more}. "
        "Copies count as one image."
    )


def _unit_rows(features: NDArray[Any]) -> NDArray[np.float64]:
    rows = np.asarray(features, np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
