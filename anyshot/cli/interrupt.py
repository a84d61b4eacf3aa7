"""Ctrl-C, for the whole program.

===================================  ===========================================================
while the command line is imported   the process ends at once: an interrupted import is not safe
while a command runs                 KeyboardInterrupt, also in place of errors that it causes
a second time, and at the end        the process ends at once
===================================  ===========================================================

Files are written atomically, so exiting at any time is safe. A program that handles or ignores
Ctrl-C itself (shells start background jobs so) keeps its handler.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE = 130  #: 128 + SIGINT, as shells report it


def exit_now(*_: object) -> None:
    """Print one line and end the process without cleaning up."""
    os.write(2, b"anyshot: Interrupted.\n")
    os._exit(EXIT_CODE)


def exit_on_interrupt() -> None:
    """Let Ctrl-C end the process at once from now on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_now)


@contextmanager
def raise_on_interrupt() -> Iterator[None]:
    """Let the first Ctrl-C of the block raise KeyboardInterrupt and the second end the process."""
    before = signal.getsignal(signal.SIGINT)
    if before not in (signal.default_int_handler, exit_now):
        yield
        return
    signal.signal(signal.SIGINT, _raise_once)
    try:
        yield
    except Exception as error:  # an interrupted import can leave a module that fails later
        if signal.getsignal(signal.SIGINT) is exit_now:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_once(*_: object) -> None:
    signal.signal(signal.SIGINT, exit_now)
    raise KeyboardInterrupt
