"""One progress display for everything that takes time: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

INTERVAL = 15.0  # seconds between lines when there is no terminal


class Advance(Protocol):
    """What `progress` yields."""

    def __call__(self, n: int = 1, note: str = "") -> None:
        """`n` more steps are done; `note` replaces the text behind the bar, "" keeps it."""


@contextmanager
def progress(description: str, total: int | None, *, console: Console | None = None) -> Iterator[Advance]:
    """Show how far a piece of work is. The yielded `advance` may be called from any thread.

    with progress("Drawing glyphs", total=500) as advance:
        for glyph in glyphs:
            draw(glyph)
            advance(note=glyph.name)
    """
    console = console or Console(stderr=True)
    with _bar(description, total, console) if console.is_terminal else _lines(description, total, console) as advance:
        yield advance


@contextmanager
def _bar(description: str, total: int | None, console: Console) -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, expand=True) as display:
        task = display.add_task(description, total=total, note="")

        def advance(n: int = 1, note: str = "") -> None:
            display.advance(task, n)
            if note:
                display.update(task, note=note)

        yield advance


@contextmanager
def _lines(description: str, total: int | None, console: Console) -> Iterator[Advance]:
    lock = threading.Lock()
    start = shown = time.monotonic()
    done, kept = 0, ""

    def line(ending: str) -> str:
        parts = [f"{description}: {done}" + (f"/{total}" if total is not None else ""), ending, kept]
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
                left = f"{_clock((now - start) * (total - done) / done)} left" if total and 0 < done <= total else ""
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
