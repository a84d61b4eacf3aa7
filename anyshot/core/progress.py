"""Show progress: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from anyshot.core._rich import (
    BarColumn,
    Column,
    Console,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

INTERVAL = 15.0  # seconds between lines without a terminal


class Advance(Protocol):
    """The function that `progress` yields."""

    def __call__(self, n: int = 1, note: str = "") -> None:
        """Add `n` finished steps; `note` replaces the text after the bar, "" keeps it."""


@contextmanager
def progress(
    description: str, total: int | None, *, done: int = 0, console: Console | None = None
) -> Iterator[Advance]:
    """Show the progress of the work in the block.

    with progress("Drawing glyphs", total=500) as advance:
        for glyph in glyphs:
            draw(glyph)
            advance(note=glyph.name)

    Parameters
    ----------
    description : str
        Name of the work.
    total : int or None
        Number of steps, if known.
    done : int
        Steps that were finished earlier; they do not count for the remaining time.
    console : Console, optional
        Default: standard error.

    Yields
    ------
    Advance
        May be called from any thread.
    """
    console = console or Console(stderr=True)
    display = _show_bar if console.is_terminal else _print_lines
    with display(description, total, done, console) as advance:
        yield advance


# the display on the screen, at most one; nested work adds bars to it
_displays: list[Progress] = []


@contextmanager
def _show_bar(
    description: str, total: int | None, done: int, console: Console
) -> Iterator[Advance]:
    outer = _displays[0] if _displays else None
    display = outer or _create_display(console)
    if outer is None:
        _displays.append(display)
        display.start()
    bar = display.add_task(description, total=total, completed=done, note="")

    def advance(n: int = 1, note: str = "") -> None:
        display.advance(bar, n)
        if note:
            display.update(bar, note=note)

    try:
        yield advance
    finally:
        if outer is None:
            display.stop()
            _displays.clear()
        else:
            display.remove_task(bar)


def _create_display(console: Console) -> Progress:
    fixed = Column(no_wrap=True)
    wrapped = Column(no_wrap=False)  # on a narrow terminal only the note wraps
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=fixed.copy()),
        BarColumn(bar_width=30 if console.width >= 120 else 8, table_column=fixed.copy()),
        MofNCompleteColumn(table_column=fixed.copy()),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=fixed.copy()),
        TextColumn("{task.fields[note]}", markup=False, table_column=wrapped),
        console=console,
    )


@contextmanager
def _print_lines(
    description: str, total: int | None, done: int, console: Console
) -> Iterator[Advance]:
    lock = threading.Lock()
    start = time.monotonic()
    last_printed = start
    done_before = done
    last_note = ""

    def print_line(time_text: str) -> None:
        count = f"{description}: {done}" + (f"/{total}" if total is not None else "")
        text = ", ".join(part for part in (count, time_text, last_note) if part)
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal last_printed, done, last_note
        with lock:
            done += n
            last_note = note or last_note
            now = time.monotonic()
            if now - last_printed >= INTERVAL:
                last_printed = now
                remaining = ""
                if total is not None and done_before < done <= total:
                    seconds = (now - start) * (total - done) / (done - done_before)
                    remaining = f"{_clock(seconds)} left"
                print_line(remaining)

    try:
        yield advance
    finally:
        print_line(f"{_clock(time.monotonic() - start)} in total")


def _clock(seconds: float) -> str:
    """Format seconds as h:mm:ss, or as m:ss below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
