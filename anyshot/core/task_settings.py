"""How tasks are sampled: their classes, support sizes and query images."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anyshot.core.errors import SettingsError
from anyshot.core.options import (
    MAX_NUMBER,
    check_fields,
    option,
    refuse_unknown_arguments,
    suggestion,
)
from anyshot.core.registry import SHOT_RULES


@refuse_unknown_arguments
@dataclass(frozen=True)
class TaskSettings:
    """How tasks are sampled.

    Parameters
    ----------
    way : int
        Classes in a task.
    shots : str
        The rule for the number of support images a class, as for :func:`parse_shots`.
    query : int
        Query images a class.

    Examples
    --------
    >>> TaskSettings(way=10, shots="5").shots
    '5'
    """

    way: int = option(5, "Classes in a task.", least=2, most=10_000)
    shots: str = option(
        "any-shot:1-50",
        "Support images per class: fixed:K, or RULE:LO-HI with the rule any-shot, class-imbalance, "
        "task-imbalance, linear, step, long-tailed or random.",
    )
    query: int = option(15, "Query images a class.", least=1, most=100_000)

    def __post_init__(self) -> None:
        check_fields(self)
        rule, _, _ = parse_shots(self.shots)
        shots = self.shots.replace(rule, SHOT_RULES.canonical_name(rule), 1)
        object.__setattr__(self, "shots", shots)


def parse_shots(text: str) -> tuple[str, int, int]:
    """Rule and range of a text such as ``any-shot:1-50`` or ``fixed:5``.

    ``any-shot`` alone means 1-50, and ``5`` means fixed:5.

    >>> parse_shots("class-imbalance:5-25")
    ('class-imbalance', 5, 25)
    """
    match = re.fullmatch(r"(?:([^\d:].*?)(?::|$))?(?:(\d{1,99})(?:-(\d{1,99}))?)?", text)
    if not match or not text or (match[1] in (None, "fixed") and not match[2]):
        raise SettingsError(f"Shots {text!r} are not valid; write any-shot:1-50 or fixed:5.")
    rule = match[1] or "fixed"
    if rule not in SHOT_RULES:
        raise SettingsError(f"There is no shot rule {rule!r}{suggestion(rule, SHOT_RULES)}")
    least, most = (1, 50) if match[2] is None else (int(match[2]), int(match[3] or match[2]))
    if rule == "fixed" and least != most:
        raise SettingsError(
            f"Shots {text!r} are a range without a rule; write for example any-shot:{least}-{most}."
        )
    if not 1 <= least <= most:
        raise SettingsError(f"Shots {text!r} need a range LO-HI with 1 ≤ LO ≤ HI.")
    if most > MAX_NUMBER:
        raise SettingsError(
            f"Shots {text!r} ask for {most} images a class, but at most {MAX_NUMBER:,} are allowed."
        )
    return rule, least, most
