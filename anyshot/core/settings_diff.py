"""Compare two settings and name what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
MOST_NAMED = 5  #: changes that a message names: another method differs in all of its options


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return name -> (old, new) of all values that differ between two plain settings.

    A name is that of the value alone, or with its part where two parts have a value of that name.

    >>> old = {"mixing": "random", "train": {"rate": 1, "clip": 3}, "pretrain": {"rate": 2}}
    >>> new = {"mixing": "turn", "train": {"rate": 4, "clip": 3}, "pretrain": {"rate": 2}}
    >>> differences(old, new)
    {'mixing': ('random', 'turn'), 'train.rate': (1, 4)}
    """
    before = dict(_walk(old))
    after = dict(_walk(new))
    paths = [*before, *(path for path in after if path not in before)]
    counts = Counter(path[-1] for path in paths)
    return {
        path[-1] if counts[path[-1]] == 1 else ".".join(path): (before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path)
    }


def describe_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name the values that differ in one line, at most five of them.

    >>> describe_differences({"task": {"way": 5, "query": 15}}, {"task": {"way": 10, "query": 15}})
    'way 5, not 10'
    """
    changes = [f"{name} {a}, not {b}" for name, (a, b) in differences(old, new).items()]
    more = [f"and {len(changes) - MOST_NAMED} more"] if len(changes) > MOST_NAMED else []
    return "; ".join([*changes[:MOST_NAMED], *more])


def _walk(values: Mapping[str, Any], parents: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _walk(value, (*parents, key))
        else:
            yield (*parents, key), value
