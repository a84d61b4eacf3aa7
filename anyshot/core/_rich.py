"""Rich, imported without changing Python's global random generator.

Rich draws a random number when it is imported. A program that has seeded ``random`` must not get
other numbers because it imports anyshot, so the library imports Rich from here.
"""

import random

_state = random.getstate()

from rich import box  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import (  # noqa: E402
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table  # noqa: E402
from rich.text import Text  # noqa: E402

random.setstate(_state)

__all__ = [
    "BarColumn",
    "Column",
    "Console",
    "MofNCompleteColumn",
    "Progress",
    "Table",
    "Text",
    "TextColumn",
    "TimeRemainingColumn",
    "box",
]
