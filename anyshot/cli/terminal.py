"""What a terminal, a pipe or a full disk can take: characters, log lines, the last flush."""

from __future__ import annotations

import codecs
import logging
import os
import signal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from anyshot.cli.interrupt import leave

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
    """Until the block ends, no character is beyond the streams, anyshot's log lines are shown as they stand, and Ctrl-C
    is heard."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="anyshot")
    logger, handler = logging.getLogger("anyshot"), _Lines()
    level, heard = logger.level, signal.getsignal(signal.SIGINT) is signal.default_int_handler
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    if heard:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        logger.removeHandler(handler)
        logger.setLevel(level)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """KeyboardInterrupt; but while modules are loaded and no training is under way that has to tidy up, the end: some
    modules swallow it, and others are left in pieces."""
    loading = training = False
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__")
        loading |= code.co_filename == "<frozen importlib._bootstrap>"
        training |= (
            module in ("anyshot.training.meta_training", "anyshot.training.pretraining")
            and code.co_name != "<module>"
        )
        frame = frame.f_back
    if loading and not training:
        leave()
    raise KeyboardInterrupt


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
        if sys.stdout is not None:  # as it is when the shell has closed it
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise


def refusal(error: OSError) -> str:
    """The system's refusal as a sentence."""
    place = f"'{os.fsdecode(error.filename)}'" if error.filename is not None else "the output"
    return f"Cannot read or write {place}: {error.strerror or error}."
