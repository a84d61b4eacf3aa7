"""Run a grid of jobs: one after another, in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TypeVar

from anyshot.core.errors import AnyshotError
from anyshot.experiments.launch.local import run_in_processes
from anyshot.experiments.launch.worker import JobResult, JobResults

log = logging.getLogger(__name__)

T = TypeVar("T")


def run_grid(
    grid: Mapping[str, T],
    run_job: Callable[[T], object],
    *,
    on: str = "local",
    jobs: int | None = None,
    address: str | None = None,
) -> dict[str, JobResult]:
    """Run all jobs of a grid; a job that fails does not stop the others.

    Parameters
    ----------
    grid : Mapping[str, T]
        The jobs by their folders.
    run_job : Callable[[T], object]
        Runs one job. With ``jobs > 1`` or Ray, this function, the jobs and their results are
        pickled, so the function has to be importable, and a job's output goes to ``FOLDER.log``.
    on : {"local", "ray"}
        ``"local"``: this machine; ``"ray"``: the nodes of a Ray cluster.
    jobs : int, optional
        Jobs at the same time. By default one on this machine, and one for each processor of a
        Ray cluster. Processes on this machine share its cores.
    address : str, optional
        The address of the Ray cluster; by default a cluster is started on this machine.

    Returns
    -------
    dict[str, JobResult]
        The value or the error of each job, by its folder.

    Examples
    --------
    >>> run_grid({"runs/a": -1, "runs/b": 2}, abs)
    {'runs/a': JobResult(value=1, error=''), 'runs/b': JobResult(value=2, error='')}
    """
    if on == "ray":
        from anyshot.experiments.launch.ray_cluster import run_on_ray

        ending = run_on_ray(grid, run_job, jobs, address)
    elif jobs and jobs > 1:
        ending = run_in_processes(grid, run_job, jobs)
    else:
        ending = _run_one_by_one(grid, run_job)
    results: dict[str, JobResult] = {}
    try:
        with closing(ending):
            for folder, result in ending:
                results[folder] = result
                if result.error:
                    log.warning("%s: %s", folder, result.error)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt("Run the same command again to continue.") from interrupt
    return {folder: results[folder] for folder in grid}


def _run_one_by_one(grid: Mapping[str, T], run_job: Callable[[T], object]) -> JobResults:
    for folder, job in grid.items():
        try:
            yield folder, JobResult(run_job(job))
        except AnyshotError as error:
            yield folder, JobResult(error=str(error))
