"""A grid on this machine: a process for each unit, since a pool is broken as a whole when one of its processes dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from anyshot.core.parallel.threads import limit_cores, tune_process
from anyshot.experiments.launch.job import RETRIES, Ended, JobResult, run_guarded

T = TypeVar("T")


@dataclass
class _Job:
    folder: str
    process: SpawnProcess
    tries: int


def run_locally(units: Mapping[str, T], run_unit: Callable[[T], object], jobs: int) -> Ended:
    """Units, ``jobs`` at once, each in a process of its own; one that dies is begun again."""
    context, waiting = multiprocessing.get_context("spawn"), deque((folder, 0) for folder in units)
    running: dict[Any, _Job] = {}  # by the end of its pipe
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                folder, tries = waiting.popleft()
                end, other = context.Pipe(duplex=False)
                process = context.Process(
                    target=_work, args=(other, run_unit, units[folder], folder, jobs), daemon=True
                )
                process.start()
                other.close()  # so that the pipe ends with the process
                running[end] = _Job(folder, process, tries)
            for ended in wait(list(running)):
                job = running.pop(ended)
                outcome = _received(ended, job.process)
                if outcome is None and job.tries < RETRIES:
                    waiting.appendleft((job.folder, job.tries + 1))
                else:
                    yield job.folder, outcome or JobResult(error=_death(job))
    finally:  # Ctrl-C, too; what is on disk bears that at any moment
        for job in running.values():
            job.process.kill()
        for job in running.values():
            job.process.join()


def _received(end: Any, process: SpawnProcess) -> JobResult | None:
    """What a process has to say; None if it died before it could."""
    with closing(end):
        try:
            return end.recv()
        except EOFError:
            return None
        finally:
            process.join()


def _death(job: _Job) -> str:
    code = job.process.exitcode or 0
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"its process died {job.tries + 1} times (the last time: {how}); is there enough memory?"


def _work(
    end: Connection, run_unit: Callable[[T], object], unit: T, folder: str, jobs: int
) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches every process of the terminal; the parent ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tune_process()
    limit_cores(jobs)
    end.send(run_guarded(run_unit, unit, folder))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
