"""One unit of a grid in a process that is not ours: what it returns, and where its words go."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages

T = TypeVar("T")

RETRIES = 2  #: of a unit whose worker died: once is bad luck, three times is the unit


@dataclass(frozen=True)
class JobResult:
    """What a unit returned, or why it has failed."""

    value: Any = None
    error: str = ""


Ended = Generator[tuple[str, JobResult], None, None]  #: units by their folders, as they end


def run_guarded(run_unit: Callable[[T], object], unit: T, folder: str) -> JobResult:
    """The unit, which writes to a file beside its folder what it has to say."""
    log = Path(f"{folder}.log")
    with _output(log):
        try:
            return JobResult(run_unit(unit))
        except AnyshotError as error:
            return JobResult(error=str(error))
        except Exception as error:
            traceback.print_exc()
            return JobResult(error=f"{type(error).__name__}: {error} (see '{log}')")


@contextmanager
def _output(path: Path) -> Iterator[None]:
    with os_errors_as_messages("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed below)
    logger, handler = logging.getLogger("anyshot"), logging.StreamHandler(file)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with file, redirect_stdout(file), redirect_stderr(file):
            yield
    finally:
        logger.removeHandler(handler)
