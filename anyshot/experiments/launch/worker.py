"""A job in a worker process: it returns a result and writes its output to a log file."""

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

RETRIES = 2  #: of a job whose worker died; a third death is the job's own fault


@dataclass(frozen=True)
class JobResult:
    """The value that a job returned, or the message of its error."""

    value: Any = None
    error: str = ""


JobResults = Generator[tuple[str, JobResult], None, None]  #: (folder, result), as jobs end


def run_in_worker(run_job: Callable[[T], object], job: T, folder: str) -> JobResult:
    """Run a job; its output goes to ``FOLDER.log``, its error into the result."""
    log = Path(f"{folder}.log")
    with _redirect_output(log):
        try:
            return JobResult(run_job(job))
        except AnyshotError as error:
            return JobResult(error=str(error))
        except Exception as error:
            traceback.print_exc()
            return JobResult(error=f"{type(error).__name__}: {error} (see '{log}')")


@contextmanager
def _redirect_output(path: Path) -> Iterator[None]:
    """Append stdout, stderr and log records to a file."""
    with os_errors_as_messages("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed below)
    logger = logging.getLogger("anyshot")
    handler = logging.StreamHandler(file)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with file, redirect_stdout(file), redirect_stderr(file):
            yield
    finally:
        logger.removeHandler(handler)
