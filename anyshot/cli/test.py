"""anyshot test: numbers on new classes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.settings_options import Device, Json, Workers, options, settings_with, split_commas
from anyshot.core.code_loading import fingerprint
from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import process_group, rank
from anyshot.core.registry import METRICS

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow, RunOnSet
    from anyshot.runs.run import Run

log = logging.getLogger(__name__)

Split = Literal["test", "validation", "train"]
Images = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Image sets: names or folders. Default: those of the run."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Determines the tasks; the same tasks for every method."),
]
Tasks = Annotated[int, typer.Option(min=1, metavar="N", help="Tasks for each image set.")]
OfSplit = Annotated[
    Split, typer.Option(metavar="NAME", help="Whose classes: test, validation or train.")
]
Csv = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the results to this CSV file.")
]
PerTask = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also write the results of every task to this CSV file, a line each."
    ),
]
PoolSeeds = Annotated[
    bool,
    typer.Option(
        "--pool-seeds", help="Make one row of runs that differ in nothing but their seed."
    ),
]
OtherMetrics = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help=f"Other metrics besides: {', '.join(METRICS)}, or FILE.py:NAME. Default: none.",
    ),
]
MANY = 100  # tasks: how long so many will take is measured and said before


@options(
    "task",
    "method.prediction",
    "method.samples",
    "method.test_steps",
    "method.transductive",
    "method.flips",
    "method.zooms",
    default="the run's",
)
def test(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of one or several runs.")
    ],
    images: Images = None,
    split: OfSplit = "test",
    tasks: Tasks = 1000,
    seed: Seed = 0,
    pool_seeds: PoolSeeds = False,
    workers: Workers = None,
    device: Device = "auto",
    json: Json = None,
    csv: Csv = None,
    per_task: PerTask = None,
    metrics: OtherMetrics = None,
    **chosen: Any,
) -> None:
    """Test trained runs on tasks of new classes, on one or several image sets.

    Accuracy is the mean over tasks with its 95 % interval; ECE the calibration error; worst class the mean over tasks
    of the lowest accuracy of a class; then accuracy by the number of images that a class is learned from, and n, the
    query images behind it. Several runs get the same tasks, and a second table shows each run's difference to the
    first, task by task.

    Example: anyshot test runs/maml runs/taml --images glyphs,digits --shots class-imbalance:1-50 --json out.json
    """
    from anyshot.core.parallel.device import choose_device
    from anyshot.evaluation.compare_runs import (
        add_differences,
        check_poolable,
        evaluate_runs,
        plan_runs,
        pool_rows,
    )
    from anyshot.evaluation.report.tables import payload, write_csv, write_per_task, write_results

    check_files(json, csv, per_task)
    others = metric_names(metrics)
    with process_group(choose_device(device)):
        runs = open_runs(folders, chosen)
        trials = plan_runs(runs, image_names(images), split, seed, device)
        if pool_seeds:
            check_poolable(trials)
        notes = print_size_warnings(trials)
        print_time(trials, tasks, workers)
        each = evaluate_runs(trials, tasks, workers, others)
    if rank():
        return
    rows = add_differences(pool_rows(each) if pool_seeds else each)
    show(rows, f"Classes of the {split} split, {task_text(runs, notes)}")
    if csv:
        write_csv(csv, rows)
    if per_task:
        write_per_task(per_task, each)
    if json:
        settings = {str(run.folder): run.settings.as_dict() for run in runs}
        code = {name: fingerprint(name) for name in others if not METRICS.is_builtin(name)}
        facts = {
            "settings": settings,
            "split": split,
            "tasks": tasks,
            "seeds": [seed],
            "notes": notes,
            "metrics": code,
        }
        write_results(json, payload(rows), **facts)


def check_files(*paths: Path | None) -> None:
    """Whether the results can be written, before the work."""
    from anyshot.core.files import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def open_runs(folders: Sequence[Path], chosen: Mapping[str, Any]) -> list[Run]:
    """The runs, with the settings that were chosen instead of their own."""
    from anyshot.runs.run import Run

    runs = [Run(folder) for folder in folders]
    for run in runs:
        run.settings = settings_with(run.settings, chosen)
    return runs


def image_names(images: str | None) -> list[str] | None:
    """What --images says; None: all image sets of the run."""
    return None if images is None else list(dict.fromkeys(split_commas(images, "images")))


def metric_names(metrics: str | None) -> list[str]:
    """What --metrics says, each by where it is, and known."""
    names = (
        []
        if metrics is None
        else [METRICS.canonical_name(name) for name in split_commas(metrics, "metrics")]
    )
    try:
        for name in names:
            METRICS[name]
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from error
    return names


def print_size_warnings(trials: Sequence[RunOnSet]) -> list[str]:
    """Say before the work what the classes do not allow."""
    from anyshot.evaluation.compare_runs import shortfalls

    sentences = shortfalls(trials)
    for sentence in sentences:
        log.warning("%s", sentence)
    return sentences


def print_time(trials: Sequence[RunOnSet], tasks: int, workers: int | None) -> None:
    """Say before the work how long many tasks will take."""
    from anyshot.evaluation.compare_runs import seconds

    if tasks >= MANY:
        time = duration(seconds(trials, tasks, workers))
        log.info(
            "%d × %s tasks will take about %s (--tasks N for fewer).",
            len(trials),
            f"{tasks:,}",
            time,
        )


def duration(seconds: float) -> str:
    """40 seconds, 26 minutes, 3.5 hours, 12 days."""
    if seconds < 99.5:
        return f"{seconds:.0f} seconds"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} minutes"
    return (
        f"{seconds / 3600:.1f} hours" if seconds < 99.5 * 3600 else f"{seconds / 86_400:.0f} days"
    )


def show(rows: Sequence[ResultRow], title: str) -> None:
    """The tables of the results and of the differences to the first run."""
    from anyshot.evaluation.compare_runs import unpaired_reasons
    from anyshot.evaluation.report.tables import paired_table, print_tables, summary_table

    differences = paired_table(rows)
    print_tables(summary_table(rows, title), *([differences] if differences else []))
    for sentence in unpaired_reasons(rows):
        log.warning("%s", sentence)


def task_text(runs: Sequence[Run], notes: Sequence[str] = ()) -> str:
    """5-way any-shot:1-50, 15 query images a class, transductive; `notes` on what the classes do not allow."""
    way, shots, query = dataclasses.astuple(runs[0].settings.task)
    ways = {True: "transductive", False: "one image at a time"}
    named: dict[bool, list[str]] = {}
    for run in runs:
        named.setdefault(run.settings.method.transductive, []).append(run.folder.name)
    whose = [
        ways[key] + (f" ({', '.join(names)})" if len(named) > 1 else "")
        for key, names in named.items()
    ]
    asked = "asked for " if notes else ""  # and the caption tells what was drawn
    return f"{way}-way {asked}{shots}, {query} query images a class, {', '.join(whose)}"
