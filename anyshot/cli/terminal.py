"""What a terminal, a pipe or a full disk can take: characters, log lines, the last flush."""

from __future__ import annotations

import codecs
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SPELLED = {
    "±": "+-", "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "·": "*", "→": "->", "≥": ">=", "≤": "<=", "‖": "||",
    "‘": "'", "’": "'", "“": '"', "”": '"', "α": "alpha", "β": "beta", "γ": "gamma", "θ": "theta", "σ": "sigma",
    "φ": "phi", "ψ": "psi", "ω": "omega", "√": "sqrt", "\u0303": "~", "─": "-", "━": "-", "│": "|",
}  # fmt: skip


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Characters that a stream cannot show, in those that every stream can."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SPELLED.get(c, "?") for c in error.object[error.start : error.end]), error.end


codecs.register_error("anyshot", _spelled)


@contextmanager
def terminal() -> Iterator[None]:
    """Until the block ends, no character is beyond the streams, and anyshot's log lines are shown as they stand."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="anyshot")
    logger, handler = logging.getLogger("anyshot"), _Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """The message alone, on what is standard error now."""
        with suppress(OSError):
            print(record.getMessage(), file=sys.stderr)


def say(sentence: str) -> None:
    """One sentence on standard error, if anyone can hear it."""
    with suppress(OSError):
        print(f"anyshot: {sentence}", file=sys.stderr)


def flush() -> None:
    """Write what is still to be written; a refusal is raised once, here, and not again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise


def refusal(error: OSError) -> str:
    """The system's refusal as a sentence."""
    place = f"'{os.fsdecode(error.filename)}'" if error.filename is not None else "the output"
    return f"Cannot read or write {place}: {error.strerror or error}."
