"""How common the classes are among the images to classify.

The mixture is trained for classes that are equally common. For other shares π_c, Bayes' rule gives
p'(c | x) ∝ π_c p(c | x), so a class prior needs no new fit.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core.errors import ClassifierError

EVEN = "even"
AS_GIVEN = "as-given"
FORMS = f"{EVEN!r}, {AS_GIVEN!r} or the share of each class, such as {{'cat': 0.2, 'dog': 0.8}}"

ClassPrior = str | Mapping[Any, float]


class InvalidPrior(ClassifierError, ValueError):
    """The class prior does not fit the classes; a ValueError too, as scikit-learn expects."""


def check_class_prior(prior: Any) -> ClassPrior:
    """The prior itself, if it has one of the three forms and its shares are positive."""
    if isinstance(prior, str) and prior in (EVEN, AS_GIVEN):
        return prior
    if not isinstance(prior, Mapping) or not prior:
        raise InvalidPrior(f"The class prior is {prior!r}; expected {FORMS}.")
    for name, share in prior.items():
        number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
        if not number or not math.isfinite(share) or share <= 0:
            raise InvalidPrior(
                f"The share of class {name!r} is {share!r}; expected a number above 0. "
                "Do not learn classes that do not occur."
            )
    return prior


def class_shares(
    prior: Any, classes: Sequence[Any] | NDArray[Any], counts: ArrayLike
) -> NDArray[np.float64]:
    """Shares [C] with sum 1 of classes that have these numbers of support images.

    >>> class_shares("as-given", ["cat", "dog"], [1, 3])
    array([0.25, 0.75])
    >>> class_shares({"cat": 1, "dog": 1}, ["cat", "dog"], [1, 3])
    array([0.5, 0.5])
    """
    prior = check_class_prior(prior)
    if prior == EVEN:
        return np.full(len(classes), 1 / len(classes))
    if prior == AS_GIVEN:
        numbers = np.asarray(counts, np.float64)
        return numbers / numbers.sum()
    assert isinstance(prior, Mapping)
    by_name = {str(name): float(share) for name, share in prior.items()}
    names = [str(c) for c in classes]
    missing = [name for name in names if name not in by_name]
    if missing:
        raise InvalidPrior(f"The class prior has no share of class {missing[0]!r}; add it.")
    shares = np.array([by_name[name] for name in names])
    return shares / shares.sum()


def parse_class_prior(text: str) -> ClassPrior:
    """The prior that a command's option names.

    "even", "as-given", "cat=0.2,dog=0.8", a JSON file with an object, or a CSV file whose rows are
    a class and its share.

    >>> parse_class_prior("cat=0.2,dog=0.8")
    {'cat': 0.2, 'dog': 0.8}
    """
    if text in (EVEN, AS_GIVEN):
        return text
    if Path(text).is_file():
        return check_class_prior(_read_shares(Path(text)))
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise InvalidPrior(
            f"The class prior is {text!r}; expected {EVEN}, {AS_GIVEN}, cat=0.2,dog=0.8 or a "
            "CSV or JSON file of shares."
        )
    return check_class_prior(_as_numbers([(name, share) for name, _, share in pairs]))


def _read_shares(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidPrior(f"The class prior '{path}' cannot be read: {error}.") from error
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if not rows or any(len(row) != 2 for row in rows):
        raise InvalidPrior(f"The class prior '{path}' needs two columns: class,share.")
    if rows[0][1].strip().lower() == "share":  # a heading
        rows = rows[1:]
    return _as_numbers([(name, share) for name, share in rows])


def _as_numbers(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for name, share in pairs:
        key = name.strip()
        if key in shares:
            raise InvalidPrior(f"The class prior has two shares of class {key!r}; keep one.")
        try:
            shares[key] = float(share)
        except ValueError as error:
            raise InvalidPrior(
                f"The share of class {key!r} is {share.strip()!r}; expected a number above 0."
            ) from error
    return shares
