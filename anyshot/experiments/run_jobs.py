"""The units of an experiment as a grid: warm starts before what starts from them, with progress over all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyshot.experiments.cost import done, seconds
from anyshot.experiments.job import Job, run_job, stages
from anyshot.experiments.launch import run_grid, show_progress

Failures = dict[str, str]  #: folder -> sentence


def run_jobs(
    units: Sequence[Job],
    jobs: int | None = None,
    workers: int | None = None,
    command: str = "",
    title: str = "Runs",
    on: str = "local",
    address: str | None = None,
) -> Failures:
    """Run every unit that is not done, ``jobs`` at once, on this machine or on a Ray cluster, those first that take
    longest, so that none is left for one job at the end. A unit that fails with a sentence does not stop the others."""
    failures: Failures = {}
    units = sorted(units, key=lambda unit: seconds(unit) * (1 - done(unit)), reverse=True)
    work = partial(run_job, workers=workers, command=command)
    with show_progress(units, title, done, seconds):
        for wave in stages(units):
            found = run_grid(
                {unit.folder: unit for unit in wave}, work, on=on, jobs=jobs, address=address
            )
            failures |= {
                folder: outcome.error for folder, outcome in found.items() if outcome.error
            }
    return failures
