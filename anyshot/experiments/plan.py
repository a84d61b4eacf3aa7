"""From an experiment to its grid: the settings of every run, what is measured on each, and what differs from the
paper."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from anyshot.core.errors import AnyshotError
from anyshot.core.registry import display_name
from anyshot.core.settings import Settings
from anyshot.experiments.available_data import is_available, learned
from anyshot.experiments.experiment import Block, Column, Experiment, Model, Picture
from anyshot.experiments.figures import measurements_for
from anyshot.experiments.job import Job, merge_jobs
from anyshot.experiments.measurement import Measurement, digest
from anyshot.experiments.scale import PAPER, Scale
from anyshot.runs.run import Run
from anyshot.training.presets import preset, pretraining_settings

APART = {
    "seed",
    "body_from",
    "checkpoint_every",
}  #: settings that are no part of the protocol, or told in words


class MeasurementRef(NamedTuple):
    """A probe of one run."""

    folder: str
    probe: Measurement


@dataclass(frozen=True)
class FigureInput:
    """What a picture shows of one model in one column, at one of its values."""

    model: str
    column: Column
    value: int
    asked: tuple[MeasurementRef, ...]  #: a run for each seed


@dataclass(frozen=True)
class Plan:
    """The grid of an experiment at a scale."""

    experiment: Experiment
    scale: Scale
    units: tuple[Job, ...]
    tests: dict[
        tuple[str, int], tuple[MeasurementRef, ...]
    ]  #: by model and column; a run for each seed
    looks: tuple[tuple[Picture, tuple[FigureInput, ...]], ...]  #: what each picture shows
    differences: tuple[str, ...]  #: to the paper's protocol


def make_plan(experiment: Experiment, scale: Scale, out: Path, start: str | None = None) -> Plan:
    """The grid whose runs are in ``out``; ``start`` is a warm start that is there already."""
    grid = PlanBuilder(experiment, scale, out, start)
    tests: dict[tuple[str, int], tuple[MeasurementRef, ...]] = {}
    looks: list[tuple[Picture, tuple[FigureInput, ...]]] = []
    for block in experiment.blocks:
        before = len(tests) // len(experiment.models)
        for model, (place, column) in itertools.product(
            experiment.models, enumerate(block.columns, before)
        ):
            tests[model.name, place] = grid.asked(block, model, column, "test")
        for picture in block.pictures:
            shown = tuple(
                FigureInput(
                    name,
                    column,
                    value,
                    grid.asked(block, experiment.model(name), column, kind, change, value),
                )
                for name in picture.models
                for column in picture.columns or block.columns
                for kind, change, value in measurements_for(picture)
            )
            looks.append((picture, shown))
    if start and start not in grid.used:
        raise AnyshotError(
            f"No model of {experiment.name} could start from '{start}': none learns from its images."
        )
    return Plan(
        experiment,
        scale,
        tuple(merge_jobs(grid.units)),
        tests,
        tuple(looks),
        tuple(grid.differences()),
    )


class PlanBuilder:
    """Units as they are asked for."""

    def __init__(self, experiment: Experiment, scale: Scale, out: Path, start: str | None) -> None:
        self.experiment, self.scale, self.out, self.start = experiment, scale, out, start
        self.units: list[Job] = []
        self.used: set[str] = set()
        self.trained: dict[tuple[Block, str], Settings] = {}

    def asked(
        self,
        block: Block,
        model: Model,
        column: Column,
        kind: str,
        change: dict[str, int] | None = None,
        value: int = 0,
    ) -> tuple[MeasurementRef, ...]:
        """A probe of each seed's run."""
        found = []
        for seed in range(self.scale.seeds_of(self.experiment)):
            settings = self.settings(block, model, seed)
            task = replace(settings.task, shots=column.shots or settings.task.shots)
            tasks = self.scale.tasks_of(
                self.experiment, task.shots, adapts=kind in ("test", "distances")
            )
            if kind != "test":
                tasks = min(
                    tasks,
                    self.scale.pictured
                    if kind != "distances"
                    else max(2, self.scale.pictured // 10),
                )
            method = replace(settings.method, **{**model.test, **(change or {})})
            probe = Measurement(
                kind, column.images, task, tasks, method, 0 if kind == "test" else value
            )
            unit = self.unit(block, model, settings, probe)
            self.units.append(unit)
            found.append(MeasurementRef(unit.folder, probe))
        return tuple(found)

    def settings(
        self, block: Block, model: Model, seed: int, scale: Scale | None = None
    ) -> Settings:
        """Of a model's training, without where it starts."""
        scale, base = scale or self.scale, preset(block.preset, model.method)
        images = learned(block)
        ood = (
            tuple(name for name in base.ood if is_available(name))
            if set(images) <= set(base.images)
            else ()
        )
        method = {**scale.method, **scale.methods.get(model.method, {}), **model.change}
        return replace(
            base,
            images=images,
            ood=ood,
            task=replace(base.task, **{"shots": block.shots or base.task.shots, **scale.task}),
            method=replace(base.method, **method),
            train=replace(base.train, **{**scale.train, **model.train, "seed": seed}),
        )

    def unit(self, block: Block, model: Model, settings: Settings, probe: Measurement) -> Job:
        """The run of these settings, from the warm start if there is one."""
        self.trained.setdefault((block, model.name), settings)
        name, start = (
            self.name(block, model, settings),
            self.warm_start(block, settings) if self.scale.warm else None,
        )
        if start is not None:
            place, identity = start
            key = digest(settings.with_initial_body(identity))
            settings = settings.with_initial_body(place)
        else:
            key = digest(settings)
        return Job(str(self.out / "runs" / f"{name}-{key}"), settings, (probe,))

    def name(self, block: Block, model: Model, settings: Settings) -> str:
        """What a run is about, for people who look at folders."""
        usual = preset(block.preset, model.method).method
        images = [Path(name).name for name in settings.images]
        changed = [
            str(value) for key, value in model.change.items() if getattr(usual, key) != value
        ]
        words = [
            *images,
            block.shots,
            display_name(model.method),
            *changed,
            str(settings.train.seed),
        ]
        return re.sub(r"[^\w.]+", "-", " ".join(words)).strip("-")[:80]

    def warm_start(self, block: Block, settings: Settings) -> tuple[str, str]:
        """Where models of a block start from, and what tells it from others: what was given, or a unit of its own."""
        if self.start is not None:
            given = Run(self.start)
            if given.settings.images == settings.images:
                self.used.add(self.start)
                return self.start, hashlib.sha256(given.best_path.read_bytes()).hexdigest()
        usual = replace(settings, task=preset(block.preset).task)  # one for all shots
        warm = pretraining_settings(usual)
        key = digest(warm)
        images = "-".join(Path(name).name for name in settings.images)
        folder = str(self.out / "runs" / f"{images}-warm-{key}")
        self.units.append(Job(folder, warm))
        return folder, key

    def differences(self) -> list[str]:
        """What the scale changes in the paper's protocol, in sentences; what a model changes is what it is."""
        found: dict[str, dict[tuple[str, str], list[str]]] = {}
        for (block, name), used in self.trained.items():
            paper = self.settings(
                replace(block, images=()), self.experiment.model(name), used.train.seed, PAPER
            )
            paper = replace(paper, ood=preset(block.preset).ood)
            before, now = _flat(paper), _flat(used)
            for key in [key for key in before if key not in APART]:
                if before[key] != now[key]:
                    models = found.setdefault(key, {}).setdefault(
                        (_shown(now[key]), _shown(before[key])), []
                    )
                    models += [name] if name not in models else []
        everyone = {name for _, name in self.trained}
        sentences = []
        for key, pairs in found.items():
            each = [
                f"{key} {now}, not {before}"
                + (f" ({', '.join(models)})" if set(models) != everyone else "")
                for (now, before), models in pairs.items()
            ]
            sentences.append("; ".join(each))
        return sentences


def _flat(settings: Settings) -> dict[str, object]:
    values = settings.as_dict()
    parts = {key: values[key] for key in ("images", "ood")}
    return {**parts, **values["task"], **values["method"], **values["train"]}


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return (
        "the method's own"
        if value is None
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
