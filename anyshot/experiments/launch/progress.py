"""Progress of a grid, read from the folders of its jobs, wherever they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from anyshot.core.progress import progress

T = TypeVar("T")

INTERVAL = 2.0  #: seconds between updates


@contextmanager
def show_progress(
    jobs: Sequence[T],
    title: str,
    share: Callable[[T], float],
    seconds: Callable[[T], float] = lambda job: 100.0,
) -> Iterator[None]:
    """Show the progress of jobs and the time left until the block ends.

    ``share`` returns the share of a job that is done, ``seconds`` how long it takes on a typical
    machine: long jobs count for more.
    """
    lengths = [max(1, round(seconds(job))) for job in jobs]
    finished = threading.Event()

    def measure() -> tuple[int, str]:
        shares = [share(job) for job in jobs]
        ready = sum(done > 0.999 for done in shares)
        total = sum(round(done * length) for done, length in zip(shares, lengths, strict=True))
        return total, f"{ready} of {len(jobs)} runs"

    shown, _ = measure()
    with progress(title, sum(lengths), done=shown) as advance:

        def update() -> None:
            nonlocal shown
            total, note = measure()
            advance(max(0, total - shown), note)
            shown = max(total, shown)

        def update_until_finished() -> None:
            while not finished.wait(INTERVAL):
                update()

        thread = threading.Thread(target=update_until_finished, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            update()
