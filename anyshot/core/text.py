"""Names and cells in a form that is safe to show in a terminal, a page or a spreadsheet."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet evaluates cells that start so
BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> join_words(["abml"]), join_words(["abml", "taml"]), join_words(["rfs", "r2d2", "taml"])
    ('abml', 'abml and taml', 'rfs, r2d2 and taml')
    """
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


def readable(name: str | Path) -> str:
    r"""Return a name without characters that a terminal or browser would act on.

    Control characters, line separators, direction overrides and bytes that are not UTF-8 become
    escape sequences; everything else stays.

    >>> print(readable("café"), readable("two\nlines"), readable("caf\udce9"), readable("\x1b[31m"))
    café two\nlines caf\udce9 \x1b[31m
    """
    return "".join(_escape(c) if _is_unsafe(c) else c for c in str(name))


def _is_unsafe(character: str) -> bool:
    unsafe = ("Cc", "Cs", "Zl", "Zp")  # control, surrogate, line separator, paragraph separator
    return unicodedata.category(character) in unsafe or character in BIDI_CONTROLS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def spreadsheet_safe(cell: Any) -> Any:
    """Return a CSV cell that a spreadsheet shows as text: formulas get a leading apostrophe.

    >>> [spreadsheet_safe(cell) for cell in ("=1+1", "-0.5", -0.5, "oak", "@home")]
    ["'=1+1", '-0.5', -0.5, 'oak', "'@home"]
    """
    text = cell if isinstance(cell, str | Path) else ""
    if not str(text).startswith(FORMULA_STARTS):
        return cell
    try:
        float(text)  # type: ignore[arg-type]  # "-0.5" is a number, not a formula
    except (TypeError, ValueError):
        return f"'{text}"
    return cell
