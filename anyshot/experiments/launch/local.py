"""A grid on this machine: one process for each job.

A process pool would not do: it breaks as a whole when one of its processes dies.
"""

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
from anyshot.experiments.launch.worker import RETRIES, JobResult, JobResults, run_in_worker

T = TypeVar("T")


@dataclass
class _Running:
    folder: str
    process: SpawnProcess
    attempt: int


def run_in_processes(
    grid: Mapping[str, T], run_job: Callable[[T], object], jobs: int
) -> JobResults:
    """Run ``jobs`` jobs at once, each in its own process; restart a job whose process dies."""
    context = multiprocessing.get_context("spawn")
    waiting = deque((folder, 1) for folder in grid)
    running: dict[Any, _Running] = {}  # by the parent's end of the pipe
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                folder, attempt = waiting.popleft()
                ours, theirs = context.Pipe(duplex=False)
                arguments = (theirs, run_job, grid[folder], folder, jobs)
                process = context.Process(target=_work, args=arguments, daemon=True)
                process.start()
                theirs.close()  # so that the pipe ends when the process does
                running[ours] = _Running(folder, process, attempt)
            for pipe in wait(list(running)):
                job = running.pop(pipe)
                result = _receive(pipe, job.process)
                if result is None and job.attempt <= RETRIES:
                    waiting.appendleft((job.folder, job.attempt + 1))
                else:
                    yield job.folder, result or JobResult(error=_describe_death(job))
    finally:  # also on Ctrl-C; files are written atomically, so killing is safe at any time
        for job in running.values():
            job.process.kill()
        for job in running.values():
            job.process.join()


def _receive(pipe: Any, process: SpawnProcess) -> JobResult | None:
    """The result that a process sent; None if it died before that."""
    with closing(pipe):
        try:
            return pipe.recv()
        except EOFError:
            return None
        finally:
            process.join()


def _describe_death(job: _Running) -> str:
    code = job.process.exitcode or 0
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"its process died {job.attempt} times (the last time: {how}); is there enough memory?"


def _work(pipe: Connection, run_job: Callable[[T], object], job: T, folder: str, jobs: int) -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    tune_process()
    limit_cores(jobs)
    pipe.send(run_in_worker(run_job, job, folder))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
