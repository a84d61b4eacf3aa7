"""One progress display for everything that takes time: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_state = (
    random.getstate()
)  # Rich draws numbers when it is imported: not from a generator that a program has seeded

from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: E402
from rich.table import Column  # noqa: E402

random.setstate(_state)

INTERVAL = 15.0  # seconds between lines when there is no terminal


class Advance(Protocol):
    """What `progress` yields."""

    def __call__(self, n: int = 1, note: str = "") -> None:
        """`n` more steps are done; `note` replaces the text behind the bar, "" keeps it."""


@contextmanager
def progress(
    description: str, total: int | None, *, done: int = 0, console: Console | None = None
) -> Iterator[Advance]:
    """Show how far a piece of work is; `done` steps of it were done before. `advance` may be called from any thread.

    with progress("Drawing glyphs", total=500) as advance:
        for glyph in glyphs:
            draw(glyph)
            advance(note=glyph.name)
    """
    console = console or Console(stderr=True)
    display = _bar if console.is_terminal else _lines
    with display(description, total, done, console) as advance:
        yield advance


_shown: list[
    Progress
] = []  # the display that is on the screen: one at most, and inner work adds its bar to it


@contextmanager
def _bar(description: str, total: int | None, done: int, console: Console) -> Iterator[Advance]:
    outer = _shown[0] if _shown else None
    display = outer or _display(console)
    if outer is None:
        _shown.append(display)
        display.start()
    task = display.add_task(description, total=total, completed=done, note="")

    def advance(n: int = 1, note: str = "") -> None:
        display.advance(task, n)
        if note:
            display.update(task, note=note)

    try:
        yield advance
    finally:
        if outer is None:
            display.stop()
            _shown.clear()
        else:
            display.remove_task(task)


def _display(console: Console) -> Progress:
    whole = Column(no_wrap=True)
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=whole.copy()),
        BarColumn(bar_width=30 if console.width >= 120 else 8, table_column=whole.copy()),
        MofNCompleteColumn(table_column=whole.copy()),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=whole.copy()),
        TextColumn(
            "{task.fields[note]}", markup=False, table_column=Column(no_wrap=False)
        ),  # the only one to give way
        console=console,
    )


@contextmanager
def _lines(description: str, total: int | None, done: int, console: Console) -> Iterator[Advance]:
    lock = threading.Lock()
    start = shown = time.monotonic()
    before, kept = done, ""

    def line(ending: str) -> str:
        parts = [
            f"{description}: {done}" + (f"/{total}" if total is not None else ""),
            ending,
            kept,
        ]
        return ", ".join(part for part in parts if part)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal shown, done, kept
        with lock:
            done, kept = done + n, note or kept
            now = time.monotonic()
            if now - shown >= INTERVAL:
                shown = now
                left = ""
                if total is not None and before < done <= total:
                    left = f"{_clock((now - start) * (total - done) / (done - before))} left"
                say(line(left))

    try:
        yield advance
    finally:
        say(line(f"{_clock(time.monotonic() - start)} in all"))


def _clock(seconds: float) -> str:
    """Seconds as h:mm:ss, or m:ss below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
