"""Many units: one after another here, or several at once in processes; any of them may be interrupted or fail."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from anyshot.errors import AnyshotError
from anyshot.experiments.cost import done, seconds
from anyshot.experiments.units import Unit, run_unit, waves
from anyshot.parallel import cores, tune_process
from anyshot.progress import progress

log = logging.getLogger(__name__)

LOOK = 2.0  #: seconds between looks at how far the units are
Failures = dict[str, str]  #: folder -> sentence


def run_units(
    units: Sequence[Unit], jobs: int = 1, workers: int | None = None, command: str = "", title: str = "Runs"
) -> Failures:
    """Run every unit that is not done, ``jobs`` at once, warm starts before what starts from them. A unit that fails
    with a sentence does not stop the others."""
    failures: Failures = {}
    with _shown(units, title):
        for wave in waves(units):
            if jobs == 1:
                for unit in wave:
                    _keep(failures, unit, lambda unit=unit: run_unit(unit, workers, command))  # type: ignore[misc]
            else:
                _run_wave(wave, failures, jobs, workers or max(1, cores() // jobs), command)
    return failures


def _keep(failures: Failures, unit: Unit, work: Callable[[], object]) -> None:
    try:
        work()
    except AnyshotError as error:
        failures[unit.folder] = str(error)
        log.warning("%s", error)


def _run_wave(wave: Sequence[Unit], failures: Failures, jobs: int, workers: int, command: str) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(wave)), context, initializer=_alone, initargs=(os.getpid(),)) as pool:
        waiting = {pool.submit(run_unit, unit, workers, command): unit for unit in wave}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    _keep(failures, waiting.pop(future), _result(future))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()  # what is on disk bears that at any moment
            raise


def _result(future: Future[None]) -> Callable[[], None]:
    def result() -> None:
        try:
            future.result()
        except BrokenProcessPool as error:
            raise AnyshotError("A process of the grid was killed; the same command goes on with it.") from error

    return result


def _alone(parent: int) -> None:
    """A process of the pool says nothing, and does not outlive the one that started it."""
    tune_process()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _shown(units: Sequence[Unit], title: str) -> Iterator[None]:
    """How far the grid is, by what its folders hold, wherever its units run; in seconds on an ordinary machine, so that
    the time left is right when units differ."""
    total = [max(1, round(seconds(unit))) for unit in units]
    finished = threading.Event()

    def behind() -> tuple[int, str]:
        shares = [done(unit) for unit in units]
        ready = sum(share > 0.999 for share in shares)
        return sum(round(s * t) for s, t in zip(shares, total, strict=True)), f"{ready} of {len(units)} runs"

    shown, _ = behind()
    with progress(title, sum(total), done=shown) as advance:

        def look() -> None:
            nonlocal shown
            now, note = behind()
            advance(max(0, now - shown), note)
            shown = max(now, shown)

        def watch() -> None:
            while not finished.wait(LOOK):
                look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            look()
