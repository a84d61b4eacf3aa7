"""How far a grid is, by what its folders hold, wherever its units run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from anyshot.core.progress import progress

T = TypeVar("T")

LOOK = 2.0  #: seconds between looks


@contextmanager
def show_progress(
    units: Sequence[T],
    title: str,
    share: Callable[[T], float],
    seconds: Callable[[T], float] = lambda unit: 100.0,
) -> Iterator[None]:
    """Show until the block ends how far the units are, and the time left. ``share`` tells how much of a unit is done,
    ``seconds`` how long it takes on an ordinary machine, so that the time left is right when units differ."""
    total = [max(1, round(seconds(unit))) for unit in units]
    finished = threading.Event()

    def behind() -> tuple[int, str]:
        shares = [share(unit) for unit in units]
        ready = sum(share > 0.999 for share in shares)
        return sum(
            round(s * t) for s, t in zip(shares, total, strict=True)
        ), f"{ready} of {len(units)} runs"

    shown, _ = behind()
    with progress(title, sum(total), done=shown) as advance:

        def look() -> None:
            nonlocal shown
            now, note = behind()
            advance(max(0, now - shown), note)
            shown = max(now, shown)

        def watch() -> None:
            while not finished.wait(LOOK):
                look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            look()
