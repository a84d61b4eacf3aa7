"""Ctrl-C before anything is under way: the end, in one line."""

from __future__ import annotations

import os


def leave(*_: object) -> None:
    """End the process at once. What is on disk bears that at any moment."""
    os.write(2, b"anyshot: Interrupted.\n")
    os._exit(130)
