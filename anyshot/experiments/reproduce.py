"""Run an experiment: train and measure what is missing, then write its tables and figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from anyshot.core.errors import SettingsError
from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments.available_data import (
    check_exists,
    keep_available,
    select_columns,
    select_models,
    with_data,
)
from anyshot.experiments.estimate import job_seconds, share_done
from anyshot.experiments.experiment import Experiment
from anyshot.experiments.job import Job, run_job, stages
from anyshot.experiments.launch import run_grid, show_progress
from anyshot.experiments.plan import Plan, make_plan
from anyshot.experiments.report_files import write_report
from anyshot.experiments.results import ExperimentResult, Failures, collect
from anyshot.experiments.scale import DataChoice, Scale, find_scale


@dataclass(frozen=True)
class Request:
    """An experiment, its scale, its data, and changes of the scale."""

    experiment: Experiment
    scale: str = "short"
    out: Path = Path("runs/reproduce")
    data: DataChoice | None = None  #: replaces the experiment's image sets
    columns: tuple[str, ...] = ()  #: image sets whose columns to run; empty: all
    models: tuple[str, ...] = ()  #: models to run; empty: all
    recipe: str | None = None  #: "anyshot": pre-trained body, "paper": from scratch
    start: str | None = None  #: an existing pre-trained body
    seeds: int | None = None
    tasks: int | None = None
    iterations: int | None = None
    validation_tasks: int | None = None

    @property
    def results_folder(self) -> Path:
        """The folder of the results."""
        sets = (*self.data.train, *self.data.test) if self.data else self.columns
        words = [self.experiment.name, self.scale, *(Path(name).name for name in sets)]
        words += [re.sub(r"\W+", "-", name) for name in self.models]
        return self.out / "-".join(words)


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name, by its file, or as ``FILE.py:NAME``."""
    return EXPERIMENTS[f"{name}:EXPERIMENT" if name.endswith(".py") else name]


def scale_for(request: Request) -> Scale:
    """The scale of a request with its changes."""
    if request.start and request.recipe == "paper":
        raise SettingsError(
            "The paper's recipe trains from scratch; drop --from or --recipe paper."
        )
    scale = find_scale(request.scale, request.recipe or ("anyshot" if request.start else None))
    scale = scale.for_experiment(request.experiment)
    train = dict(scale.train)
    if request.iterations:
        every = min(train.get("validate_every", 10_000), max(1, request.iterations // 2))
        train |= {"iterations": request.iterations, "validate_every": every}
    if request.validation_tasks:
        train["validation_tasks"] = request.validation_tasks
    seeds = request.seeds or scale.seeds
    return replace(scale, train=train, seeds=seeds, tasks=request.tasks or scale.tasks)


def plan_for(request: Request) -> tuple[Plan, list[str]]:
    """Plan a request with the image sets on this machine; sentences on what was left out."""
    scale = scale_for(request)
    experiment = request.experiment
    notes = []
    if data := request.data or scale.data:
        check_exists(data)
        experiment = with_data(experiment, data)
        names = ", ".join((*data.train, *data.test))
        notes.append(
            f"Run on {names} instead of the paper's images; the paper has no numbers for these."
        )
    if request.columns:
        experiment = select_columns(experiment, request.columns)
    if request.models:
        experiment = select_models(experiment, request.models)
    experiment, missing = keep_available(experiment)
    return make_plan(experiment, scale, request.out, request.start), [*notes, *missing]


def run_jobs(
    jobs: Sequence[Job],
    parallel: int | None = None,
    workers: int | None = None,
    command: str = "",
    title: str = "Runs",
    on: str = "local",
    address: str | None = None,
) -> Failures:
    """Run every job that is not done, ``parallel`` at once; return the messages of failed jobs.

    Pre-training comes before the jobs that start from it. The longest jobs come first, so that no
    single long one remains at the end. A job that fails does not stop the others.
    """
    failures: dict[str, str] = {}
    by_length = sorted(jobs, key=lambda job: job_seconds(job) * (1 - share_done(job)), reverse=True)
    work = partial(run_job, workers=workers, command=command)
    with show_progress(by_length, title, share_done, job_seconds):
        for stage in stages(by_length):
            grid = {job.folder: job for job in stage}
            ended = run_grid(grid, work, on=on, jobs=parallel, address=address)
            failures |= {folder: job.error for folder, job in ended.items() if job.error}
    return failures


def reproduce(
    request: Request,
    jobs: int | None = None,
    workers: int | None = None,
    command: str = "",
    on: str = "local",
    address: str | None = None,
) -> ExperimentResult:
    """Run a whole experiment and write its report; finished parts are not run again.

    ``jobs``, ``on`` and ``address`` are those of :func:`anyshot.experiments.launch.run_grid`.
    """
    plan, notes = plan_for(request)
    title = f"{plan.experiment.name}, {plan.scale.name}"
    failures = run_jobs(plan.jobs, jobs, workers, command, title, on, address)
    result = collect(plan, failures, notes)
    write_report(result, request.results_folder)
    return result
