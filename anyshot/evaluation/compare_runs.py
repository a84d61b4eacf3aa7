"""Test several runs on the same tasks and compare them.

    trials = plan_runs([Run("runs/maml"), Run("runs/taml")], ["glyphs", "digits"])
    rows = add_differences(evaluate_runs(trials, tasks=100))
    [(row.images, row.paired.accuracy, row.paired.accuracy_interval) for row in rows if row.paired]

The last line lists accuracy(taml) − accuracy(maml) with its interval for each image set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshot.core.errors import RunError, SettingsError
from anyshot.core.progress import progress
from anyshot.core.registry import display_name
from anyshot.core.settings import Settings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate, seconds_per_task
from anyshot.evaluation.metrics import (
    PairedDifference,
    Summary,
    average_sets,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.methods import Method
from anyshot.runs.run import Run

MEAN = "mean"  #: name of the image set in the row with the mean over image sets


@dataclass(frozen=True)
class RunOnSet:
    """One run and the tasks of one image set that it is tested on."""

    name: str  #: of the run
    settings: Settings
    method: Method
    stream: TaskStream

    @property
    def images(self) -> str:
        """Name of the image set."""
        return self.stream.imagesets[0].name


@dataclass(frozen=True)
class ResultRow:
    """One row of a table of results: a run, or the pooled seeds of a method, on one image set."""

    run: str
    images: str
    settings: tuple[Settings, ...]  #: of the runs
    summary: Summary
    paired: PairedDifference | None = None  #: to the first run on the same images
    paired_to: str = ""  #: name of that run
    part: str = ""  #: if the image set is incomplete: "7,300 of 26,032 official test images"

    @property
    def labels(self) -> dict[str, str]:
        """Run, method, seeds and image set."""
        return {
            "run": self.run,
            "method": display_name(self.settings[0].method.name),
            "seed": " ".join(str(settings.train.seed) for settings in self.settings),
            "images": self.images,
        }


def plan_runs(
    runs: Sequence[Run],
    images: Sequence[str] | None = None,
    split: str = "test",
    seed: int = 0,
    device: str = "cpu",
) -> list[RunOnSet]:
    """Load every run and open every image set, so that errors occur before the work begins.

    ``images`` are names or folders of image sets; by default those that each run was trained and
    validated on.
    """
    tasks = list(dict.fromkeys(run.settings.task for run in runs))
    if len(tasks) > 1:
        settings = "; ".join(f"{t.way}-way {t.shots}, {t.query} query images" for t in tasks)
        raise SettingsError(
            f"These runs were trained on different tasks ({settings}); choose the tasks of the "
            "test with --way, --shots and --query."
        )
    folders = [run.folder.resolve() for run in runs]
    repeated = [
        str(run.folder) for run, f in zip(runs, folders, strict=True) if folders.count(f) > 1
    ]
    if repeated:
        raise SettingsError(f"The run {repeated[0]} is given twice; give every run once.")
    names = [run.folder.name for run in runs]
    trials = []
    for run in runs:
        name = run.folder.name if names.count(run.folder.name) == 1 else str(run.folder)
        method = run.load_method(device)
        task = run.resolve_settings().task
        for source in [*run.settings.images, *run.settings.ood] if images is None else images:
            stream = TaskStream(run.imageset(source), split, task, seed)
            trials.append(RunOnSet(name, run.settings, method, stream))
    return trials


def size_warnings(trials: Sequence[RunOnSet]) -> list[str]:
    """Warnings about classes that are too small for the tasks, each once."""
    warnings = [warning for trial in trials for warning in trial.stream.size_warnings()]
    return list(dict.fromkeys(warnings))


def estimate_seconds(trials: Sequence[RunOnSet], tasks: int, workers: int | None = None) -> float:
    """Estimate the time of the test from a few tasks of each run."""
    one_per_run = {trial.name: trial for trial in trials}
    per_task = {}
    with progress("Measuring the time of a task", len(one_per_run)) as advance:
        for name, trial in one_per_run.items():
            per_task[name] = seconds_per_task(trial.method, trial.stream, workers)
            advance()
    return sum(per_task[trial.name] * tasks for trial in trials)


def evaluate_runs(
    trials: Sequence[RunOnSet], tasks: int, workers: int | None = None, metrics: Sequence[str] = ()
) -> list[ResultRow]:
    """Test every trial on the first ``tasks`` tasks of its stream and show progress."""
    rows = []
    for trial in trials:
        with progress(f"Testing {trial.name} on {trial.images}", tasks) as advance:
            summary = evaluate(
                trial.method, trial.stream, tasks, workers=workers, advance=advance, metrics=metrics
            )
        part = trial.stream.imagesets[0].part_of_official(trial.stream.split)
        rows.append(ResultRow(trial.name, trial.images, (trial.settings,), summary, part=part))
    return rows


def check_poolable(trials: Sequence[RunOnSet]) -> None:
    """Check before the work that :func:`pool_rows` will be able to pool the runs."""
    groups: dict[tuple[Settings, str], list[RunOnSet]] = {}
    for trial in trials:
        groups.setdefault((trial.settings.with_seed(0), trial.images), []).append(trial)
    if len(groups) == len(trials):
        names = ", ".join(dict.fromkeys(trial.name for trial in trials))
        raise RunError(
            f"There is nothing to pool: no two of the runs {names} differ only in their seed."
        )
    for (_, images), group in groups.items():
        names = ", ".join(trial.name for trial in group)
        seeds = [trial.settings.train.seed for trial in group]
        if len(set(seeds)) < len(seeds):
            raise RunError(
                f"The runs {names} have equal settings and the seeds {', '.join(map(str, seeds))}; "
                "pool runs of different seeds."
            )
        if len({trial.stream.class_names() for trial in group}) > 1:
            raise RunError(
                f"The runs {names} have different classes in their splits of {images}; "
                "pool runs that share their splits."
            )


def pool_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Combine rows of runs that differ only in their seed.

    The row is named after its first run: taml-0 +2 stands for three runs.
    """
    groups: dict[tuple[Settings, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.settings[0].with_seed(0), row.images), []).append(row)
    pooled = []
    for group in groups.values():
        first = group[0]
        name = f"{first.run} +{len(group) - 1}" if len(group) > 1 else first.run
        settings = tuple(row.settings[0] for row in group)
        summary = pool_seeds([row.summary for row in group])
        pooled.append(replace(first, run=name, settings=settings, summary=summary))
    return pooled


def add_differences(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Add to each row its paired difference to the first run on the same tasks.

    The rows are grouped by run. A run on several image sets gets another row with their mean.
    """
    first = {row.images: row for row in rows if row.run == rows[0].run}
    out = []
    for name in dict.fromkeys(row.run for row in rows):
        of_run = [row for row in rows if row.run == name]
        for row in of_run:
            base = first.get(row.images)
            if base and base.run != name and same_tasks([base.summary, row.summary]):
                difference = paired_difference(base.summary, row.summary)
                row = replace(row, paired=difference, paired_to=base.run)
            out.append(row)
        if len(of_run) > 1:
            mean = average_sets([row.summary for row in of_run])
            out.append(ResultRow(name, MEAN, of_run[0].settings, mean))
    return out


def unpaired_reasons(rows: Sequence[ResultRow]) -> list[str]:
    """Why rows of :func:`add_differences` on the first run's images have no difference to it."""
    base = rows[0].run
    sets = {row.images for row in rows if row.run == base and row.images != MEAN}
    return [
        f"{row.run} and {base} were tested on different tasks of {row.images}, because their "
        "splits differ; their difference is not shown."
        for row in rows
        if row.run != base and row.images in sets and not row.paired
    ]
