"""Several runs on the same tasks: what each is tested on, the rows of a table, and how they compare.

trials = plan([Run("runs/maml"), Run("runs/taml")], ["glyphs", "digits"])
rows = compared(measure(trials, tasks=100))
[(row.images, row.paired.accuracy, row.paired.accuracy_interval) for row in rows if row.paired]  # taml − maml
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshot.core.errors import AnyshotError
from anyshot.core.progress import progress
from anyshot.core.registry import display_name
from anyshot.core.settings import Settings
from anyshot.data.tasks import TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate, seconds_per_task
from anyshot.evaluation.metrics import (
    PairedDifference,
    Summary,
    average,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.methods import Method
from anyshot.runs.run import Run

MEAN = "mean"  #: stands for the image sets in the row of their mean


@dataclass(frozen=True)
class RunOnSet:
    """One run on one image set."""

    name: str  #: of the run
    settings: Settings
    method: Method
    stream: TaskStream

    @property
    def images(self) -> str:
        """The image set's name."""
        return self.stream.imagesets[0].name


@dataclass(frozen=True)
class ResultRow:
    """One line of a table: which runs (several where seeds were pooled) on which images, and what came out."""

    run: str
    images: str
    settings: tuple[Settings, ...]  #: of the runs
    summary: Summary
    paired: PairedDifference | None = None  #: minus the first row of the same images
    paired_to: str = ""  #: that row's run

    @property
    def labels(self) -> dict[str, str]:
        """What tells this row from others."""
        seeds = " ".join(str(s.train.seed) for s in self.settings)
        return {
            "run": self.run,
            "method": display_name(self.settings[0].method.name),
            "seed": seeds,
            "images": self.images,
        }


def plan_runs(
    runs: Sequence[Run],
    images: Sequence[str] | None = None,
    split: str = "test",
    seed: int = 0,
    device: str = "cpu",
) -> list[RunOnSet]:
    """Every run on every image set (by default the run's own), opened and checked, so that nothing fails halfway."""
    if len({run.settings.task for run in runs}) > 1:
        raise AnyshotError(
            "These runs have different tasks; say by --way, --shots and --query which to test them on."
        )
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise AnyshotError("A run is named twice; name every run once.")
    short = [run.folder.name for run in runs]
    trials = []
    for run in runs:
        name = run.folder.name if short.count(run.folder.name) == 1 else str(run.folder)
        method, task = run.load_method(device), run.settings.task
        for source in [*run.settings.images, *run.settings.ood] if images is None else images:
            stream = TaskStream(run.imageset(source), split, task, seed)
            trials.append(RunOnSet(name, run.settings, method, stream))
    return trials


def size_warnings(trials: Sequence[RunOnSet]) -> list[str]:
    """What the classes of the image sets do not allow, each said once."""
    return list(
        dict.fromkeys(sentence for trial in trials for sentence in trial.stream.size_warnings())
    )


def estimate_seconds(trials: Sequence[RunOnSet], tasks: int, workers: int | None = None) -> float:
    """How long the test will take, by each run's first few tasks."""
    each = {trial.name: trial for trial in trials}
    spent = {}
    with progress("Measuring how long a task takes", len(each)) as advance:
        for name, trial in each.items():
            spent[name] = seconds_per_task(trial.method, trial.stream, workers)
            advance()
    return sum(spent[trial.name] * tasks for trial in trials)


def evaluate_runs(
    trials: Sequence[RunOnSet], tasks: int, workers: int | None = None, metrics: Sequence[str] = ()
) -> list[ResultRow]:
    """The stream's first `tasks` tasks, for every trial; progress is shown."""
    rows = []
    for trial in trials:
        with progress(f"Testing {trial.name} on {trial.images}", tasks) as advance:
            summary = evaluate(
                trial.method, trial.stream, tasks, workers=workers, advance=advance, metrics=metrics
            )
        rows.append(ResultRow(trial.name, trial.images, (trial.settings,), summary))
    return rows


def check_poolable(trials: Sequence[RunOnSet]) -> None:
    """Whether :func:`pooled` has something to pool; to be asked before the work."""
    groups: dict[tuple[Settings, str], list[RunOnSet]] = {}
    for trial in trials:
        groups.setdefault((_unseeded(trial.settings), trial.images), []).append(trial)
    if len(groups) == len(trials):
        raise AnyshotError(
            "No two of these runs differ in their seed alone, so there is nothing to pool."
        )
    for group in groups.values():
        names = ", ".join(trial.name for trial in group)
        if len({trial.settings.train.seed for trial in group}) < len(group):
            raise AnyshotError(
                f"{names} have the same settings, and some the same seed; pool runs of different seeds."
            )
        if len({trial.stream.class_names() for trial in group}) > 1:
            raise AnyshotError(
                f"{names} have other classes in their splits of {group[0].images}; they cannot be pooled."
            )


def pool_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Rows of runs that differ in nothing but their seed become one, named after the first: taml-0 +2 is three runs."""
    groups: dict[tuple[Settings, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((_unseeded(row.settings[0]), row.images), []).append(row)
    out = []
    for first, *others in groups.values():
        name = f"{first.run} +{len(others)}" if others else first.run
        settings = tuple(row.settings[0] for row in (first, *others))
        out.append(
            ResultRow(
                name, first.images, settings, pool_seeds([row.summary for row in (first, *others)])
            )
        )
    return out


def _unseeded(settings: Settings) -> Settings:
    return replace(settings, train=replace(settings.train, seed=0))


def add_differences(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows, run by run, each with its difference to the first run and, over several image sets, with their mean."""
    first = {row.images: row for row in rows if row.run == rows[0].run}
    out = []
    for name in dict.fromkeys(row.run for row in rows):
        own = [row for row in rows if row.run == name]
        for row in own:
            base = first.get(row.images)
            if base and base.run != name and same_tasks([base.summary, row.summary]):
                row = replace(
                    row, paired=paired_difference(base.summary, row.summary), paired_to=base.run
                )
            out.append(row)
        if len(own) > 1:
            out.append(
                ResultRow(name, MEAN, own[0].settings, average([row.summary for row in own]))
            )
    return out


def unpaired_reasons(rows: Sequence[ResultRow]) -> list[str]:
    """Why rows of :func:`compared` have no difference to the first run although they have its images."""
    first = {row.images for row in rows if row.run == rows[0].run and row.images != MEAN}
    return [
        f"{row.run} and {rows[0].run} were not tested on the same tasks of {row.images}, since their runs do not share "
        "its split; their difference is not shown."
        for row in rows
        if row.run != rows[0].run and row.images in first and not row.paired
    ]
