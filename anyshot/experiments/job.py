"""One job of an experiment: a run that is trained, then measured.

A job keeps all its results in its folder and resumes from there, in any process and on any machine
that sees the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshot.core.errors import RunError
from anyshot.core.settings import Settings
from anyshot.experiments.measurement import Measurement, read_cached, run_measurement
from anyshot.runs.run import Run
from anyshot.training.stages import train


@dataclass(frozen=True)
class Job:
    """A run's folder and settings, and the measurements to make once it is trained."""

    folder: str
    settings: Settings
    measurements: tuple[Measurement, ...] = ()

    @property
    def is_pretraining(self) -> bool:
        """Whether this job pre-trains the body from which other jobs start."""
        return self.settings.pretrains_only


def run_job(job: Job, workers: int | None = None, command: str = "") -> None:
    """Train and measure what is missing; results that exist are kept."""
    if job.measurements and all(
        read_cached(job.folder, measurement) is not None for measurement in job.measurements
    ):
        return
    started = Run.find_started(job.folder)
    settings = started.settings if started else job.settings
    # The folder's name is a digest of the settings that are not the defaults, so a folder written
    # by a version with other defaults can have the same name.
    if settings.with_initial_body(None) != job.settings.with_initial_body(None):
        raise RunError(
            f"The run in '{job.folder}' was made by a version of anyshot with other defaults; "
            "move the folder away."
        )
    train(settings, job.folder, workers=workers, command=command, tensorboard=False)
    for measurement in job.measurements:
        run_measurement(job.folder, measurement, workers)


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group jobs by what they depend on: pre-training first, then all others."""
    pretraining = [job for job in jobs if job.is_pretraining]
    others = [job for job in jobs if not job.is_pretraining]
    return [stage for stage in (pretraining, others) if stage]


def merge_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Merge jobs of the same folder into one that has the measurements of all."""
    merged: dict[str, Job] = {}
    for job in jobs:
        before = merged.get(job.folder, replace(job, measurements=()))
        measurements = dict.fromkeys((*before.measurements, *job.measurements))
        merged[job.folder] = replace(before, measurements=tuple(measurements))
    return list(merged.values())
