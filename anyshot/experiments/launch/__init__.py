"""Many runs, several at once: processes on this machine, or tasks on the nodes of a Ray cluster.

A grid is made of units, each of which leaves what it has done in its own folder and, started again, goes on from there.
So a worker that dies is simply replaced, and a grid that was interrupted is continued by running it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TypeVar

from anyshot.core.errors import AnyshotError
from anyshot.experiments.launch.job import Ended, JobResult
from anyshot.experiments.launch.local import run_locally
from anyshot.experiments.launch.progress import show_progress

__all__ = ["JobResult", "run_grid", "show_progress"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def run_grid(
    units: Mapping[str, T],
    run_unit: Callable[[T], object],
    *,
    on: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> dict[str, JobResult]:
    """``run_unit(unit)`` of every unit, ``jobs`` of them at once; units go by their folders.

    ``on`` "local": one job (the default) is done here, one unit after another; more are processes that share the cores.
    ``on`` "ray": the nodes of the Ray cluster at ``address``, or of one that is started on this machine; by default a
    unit for each of its processors. Units, function and results are pickled then, so the function has to be importable,
    and what a unit prints goes to ``FOLDER.log``. A unit that fails does not keep the others from being done.

    >>> run_grid({"runs/a": -1, "runs/b": 2}, abs)
    {'runs/a': Outcome(value=1, error=''), 'runs/b': Outcome(value=2, error='')}
    """
    if on == "ray":
        from anyshot.experiments.launch.ray_cluster import run_on_ray

        backend = run_on_ray(units, run_unit, jobs, address)
    else:
        backend = (
            run_locally(units, run_unit, jobs) if jobs and jobs > 1 else _here(units, run_unit)
        )
    found: dict[str, JobResult] = {}
    try:
        with closing(backend):
            for folder, outcome in backend:
                found[folder] = outcome
                if outcome.error:
                    log.warning("%s: %s", folder, outcome.error)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt("The same command goes on with what is left.") from interrupt
    return {folder: found[folder] for folder in units}


def _here(units: Mapping[str, T], run_unit: Callable[[T], object]) -> Ended:
    for folder, unit in units.items():
        try:
            yield folder, JobResult(run_unit(unit))
        except AnyshotError as error:
            yield folder, JobResult(error=str(error))
