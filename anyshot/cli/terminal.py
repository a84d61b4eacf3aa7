"""Output of the command: streams, log lines and error sentences."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from anyshot.core.text import readable


@contextmanager
def configure_output() -> Iterator[None]:
    """Print anyshot's log lines during the block, and replace characters that a stream lacks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    logger = logging.getLogger("anyshot")
    level = logger.level
    handler = _MessageHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _MessageHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print the message without level or time on the current standard error."""
        with suppress(OSError):
            print(printable(record.getMessage()), file=sys.stderr)


def printable(text: str) -> str:
    """Return a text of several lines without characters that control a terminal."""
    return "\n".join(readable(line) for line in text.split("\n"))


def print_error(sentence: str) -> None:
    """Print one sentence on standard error; a closed stream is no error."""
    with suppress(OSError):
        print(printable(f"anyshot: {sentence}"), file=sys.stderr)


def flush() -> None:
    """Flush standard output; raise an error here, and not again when the interpreter ends."""
    try:
        if sys.stdout is not None:  # None if the shell has closed it
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
        raise


def describe_os_error(error: OSError) -> str:
    """Return an error of the operating system as a sentence."""
    name = f"'{os.fsdecode(error.filename)}'" if error.filename is not None else "the output"
    return f"Cannot read or write {name}: {error.strerror or error}."
