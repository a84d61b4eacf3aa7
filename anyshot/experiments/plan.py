"""From an experiment to its jobs: the settings of every run, and what is measured on each."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from anyshot.core.errors import SettingsError
from anyshot.core.registry import display_name
from anyshot.core.settings import Settings, TaskSettings
from anyshot.experiments.available_data import is_available, training_sets
from anyshot.experiments.experiment import Block, Column, Experiment, FigureSpec, Model
from anyshot.experiments.figures import find_kind, measurements_for
from anyshot.experiments.job import Job, merge_jobs
from anyshot.experiments.measurement import Measurement, digest
from anyshot.experiments.protocol import protocol_differences
from anyshot.experiments.scale import PAPER, Scale
from anyshot.runs.run import Run
from anyshot.training.presets import preset, pretraining_settings

DEFAULT_SHOTS = TaskSettings().shots

SeedJobs = tuple[Job, ...]  #: one job for each seed, each with the same single measurement
FigureJobs = dict[tuple[str, Column, int], SeedJobs]  #: by model, column and value of the figure


@dataclass(frozen=True)
class Plan:
    """The jobs of an experiment at a scale, and where their measurements go."""

    experiment: Experiment
    scale: Scale
    jobs: tuple[Job, ...]  #: one for each folder, with all its measurements
    tests: dict[tuple[str, int], SeedJobs]  #: by model and column
    figures: tuple[tuple[FigureSpec, FigureJobs], ...]
    differences: tuple[str, ...]  #: from the paper's protocol


def make_plan(experiment: Experiment, scale: Scale, out: Path, start: str | None = None) -> Plan:
    """Plan the runs in the folder ``out``; ``start`` is an existing pre-trained body."""
    builder = PlanBuilder(experiment, scale, out, start)
    tests: dict[tuple[str, int], SeedJobs] = {}
    figures: list[tuple[FigureSpec, FigureJobs]] = []
    first = 0  # index of the block's first column
    for block in experiment.blocks:
        for model in experiment.models:
            for index, column in enumerate(block.columns, first):
                tests[model.name, index] = builder.add(block, model, column, "test")
        first += len(block.columns)
        figures += [(spec, builder.add_figure(block, spec)) for spec in block.figures]
    if start and start not in builder.used_starts:
        raise SettingsError(
            f"No model of {experiment.name} can start from '{start}': "
            "none is trained on its image sets."
        )
    jobs = tuple(merge_jobs(builder.jobs))
    return Plan(experiment, scale, jobs, tests, tuple(figures), tuple(builder.differences()))


class PlanBuilder:
    """Collects the jobs of an experiment, one measurement at a time."""

    def __init__(self, experiment: Experiment, scale: Scale, out: Path, start: str | None) -> None:
        self.experiment = experiment
        self.scale = scale
        self.out = out
        self.start = start
        self.jobs: list[Job] = []
        self.used_starts: set[str] = set()
        self.trained: dict[tuple[Block, str], Settings] = {}  #: by block and model

    def add_figure(self, block: Block, spec: FigureSpec) -> FigureJobs:
        """Add the measurements of a figure."""
        seeds = 1 if find_kind(spec).one_run else None
        jobs: FigureJobs = {}
        for name in spec.models:
            model = self.experiment.model(name)
            for column in spec.columns or block.columns:
                for kind, change, value in measurements_for(spec):
                    jobs[name, column, value] = self.add(
                        block, model, column, kind, change=change, value=value, seeds=seeds
                    )
        return jobs

    def add(
        self,
        block: Block,
        model: Model,
        column: Column,
        kind: str,
        *,
        change: dict[str, int] | None = None,
        value: int = 0,
        seeds: int | None = None,
    ) -> SeedJobs:
        """Add a measurement of each seed's run; ``seeds`` limits their number."""
        added = []
        for seed in range(seeds or self.scale.seeds_of(self.experiment)):
            settings = self.training_settings(block, model, seed)
            task = replace(settings.task, shots=column.shots or settings.task.shots)
            measurement = Measurement(
                kind,
                column.images,
                task,
                self.task_count(kind, task.shots),
                settings.method.with_values({**model.test, **column.test, **(change or {})}),
                0 if kind == "test" else value,
            )
            added.append(self.job(block, model, settings, measurement))
        self.jobs += added
        return tuple(added)

    def task_count(self, kind: str, shots: str) -> int:
        """The number of tasks of a measurement."""
        adapts = kind in ("test", "distances")
        tasks = self.scale.tasks_of(self.experiment, shots, adapts=adapts)
        if kind == "test":
            return tasks
        shown = self.scale.figure_tasks
        return min(tasks, max(2, shown // 10) if kind == "distances" else shown)

    def training_settings(
        self, block: Block, model: Model, seed: int, scale: Scale | None = None
    ) -> Settings:
        """The settings of a model's training, without its initial body."""
        scale = scale or self.scale
        base = preset(block.preset, model.method)
        images = training_sets(block)
        ood: tuple[str, ...] = ()
        if set(images) <= set(base.images):
            ood = tuple(filter(is_available, base.ood))
        of_scale = {**scale.method, **scale.methods.get(model.method, {})}
        method = base.method.with_values(of_scale, skip_unused=True).with_values(model.change)
        return replace(
            base,
            images=images,
            ood=ood,
            task=replace(base.task, **{"shots": block.shots or base.task.shots, **scale.task}),
            method=method,
            train=replace(base.train, **{**scale.train, **model.train, "seed": seed}),
            pretrain=None,  # all models of a block start from one body, if the scale has one
        )

    def job(self, block: Block, model: Model, settings: Settings, measurement: Measurement) -> Job:
        """The run with these settings, from the pre-trained body if the scale has one."""
        self.trained.setdefault((block, model.name), settings)
        name = self.run_name(block, model, settings)
        key = digest(settings)
        if self.scale.pretrained:
            body, identity = self.pretrained_body(block, settings)
            key = digest(settings.with_initial_body(identity))
            settings = settings.with_initial_body(body)
        return Job(str(self.out / "runs" / f"{name}-{key}"), settings, (measurement,))

    def run_name(self, block: Block, model: Model, settings: Settings) -> str:
        """A readable name for a run's folder."""
        method = preset(block.preset, model.method).method
        defaults = {**vars(method), **method.all_options()}
        words = [
            *(Path(name).name for name in settings.images),
            block.shots,
            display_name(model.method),
            *(str(v) for key, v in model.change.items() if defaults.get(key) != v),
            str(settings.train.seed),
        ]
        return re.sub(r"[^\w.]+", "-", " ".join(words)).strip("-")[:80]

    def pretrained_body(self, block: Block, settings: Settings) -> tuple[str, str]:
        """The folder of the initial body and its identity: the given one, or a new job."""
        if self.start is not None:
            given = Run(self.start)
            if given.settings.images == settings.images:
                self.used_starts.add(self.start)
                return self.start, hashlib.sha256(given.best_path.read_bytes()).hexdigest()
        # The default shots, so that blocks with other shots share the body.
        shared = replace(settings, task=replace(preset(block.preset).task, shots=DEFAULT_SHOTS))
        pretraining = pretraining_settings(shared)
        key = digest(pretraining)
        images = "-".join(Path(name).name for name in settings.images)
        folder = str(self.out / "runs" / f"{images}-pretrained-{key}")
        self.jobs.append(Job(folder, pretraining))
        return folder, key

    def differences(self) -> list[str]:
        """Sentences on what the scale changes in the paper's protocol."""
        settings = []
        for (block, name), used in self.trained.items():
            paper = self.training_settings(
                replace(block, images=()), self.experiment.model(name), used.train.seed, PAPER
            )
            settings.append((name, used, replace(paper, ood=preset(block.preset).ood)))
        return protocol_differences(settings)
