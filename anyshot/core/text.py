"""Names of classes and files, as they can be shown."""

from __future__ import annotations

import unicodedata
from pathlib import Path


def readable(name: str | Path) -> str:
    r"""A name that can be shown anywhere: control characters, and bytes that are not UTF-8, are written out.

    >>> print(readable("caf\xe9"), readable("two\nlines"), readable("caf\udce9"))
    café two\nlines caf\udce9
    """
    odd = {c for c in str(name) if unicodedata.category(c) in ("Cc", "Cs")}
    return "".join(c.encode("unicode_escape").decode() if c in odd else c for c in str(name))
