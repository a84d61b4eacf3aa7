"""anyshot test: numbers on new classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.options import Json, Workers, options, settings_with
from anyshot.errors import AnyshotError

if TYPE_CHECKING:
    from anyshot.report.tables import Row
    from anyshot.runs import Run

Split = Literal["test", "validation", "train"]
Images = Annotated[
    str | None, typer.Option(metavar="A,B", help="Image sets: names or folders. Default: those of the run.")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Determines the tasks; the same tasks for every method.")]
Tasks = Annotated[int, typer.Option(min=1, metavar="N", help="Tasks for each image set.")]
OfSplit = Annotated[Split, typer.Option(metavar="NAME", help="Whose classes: test, validation or train.")]


@options("task", "method.prediction", "method.samples", "method.test_steps", "method.transductive", default="the run's")
def test(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of one or several runs.")],
    images: Images = None,
    split: OfSplit = "test",
    tasks: Tasks = 1000,
    seed: Seed = 0,
    workers: Workers = None,
    json: Json = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results to this CSV file.")] = None,
    **chosen: Any,
) -> None:
    """Test trained runs on tasks of new classes, on one or several image sets.

    Accuracy is the mean over tasks with its 95 % interval; ECE the calibration error; worst class the mean over tasks
    of the lowest accuracy of a class; then accuracy by the number of images that a class is learned from.

    Example: anyshot test runs/taml runs/maml --images glyphs,digits --shots class-imbalance:1-50 --json out.json
    """
    from anyshot.report.tables import print_tables, summaries_payload, summary_table, write_csv, write_results

    runs = opened(folders, chosen)
    if len({run.settings.task for run in runs}) > 1:
        raise AnyshotError("These runs have different tasks; say by --way, --shots and --query which to test them on.")
    rows = [row for run in runs for row in measure(run, image_names(run, images), split, tasks, seed, workers)]
    print_tables(summary_table(rows, title=f"Classes of the {split} split, {task_text(runs)}"))
    if csv:
        write_csv(csv, rows)
    if json:
        settings = {str(run.folder): run.settings.as_dict() for run in runs}
        write_results(json, summaries_payload(rows), settings=settings, split=split, tasks=tasks, seeds=[seed])


def opened(folders: Sequence[Path], chosen: Mapping[str, Any]) -> list[Run]:
    """The runs, with the settings that were chosen instead of their own."""
    from anyshot.runs import Run

    runs = [Run(folder) for folder in folders]
    for run in runs:
        run.settings = settings_with(run.settings, chosen)
    return runs


def image_names(run: Run, images: str | None) -> list[str]:
    """What --images says, or all image sets of the run."""
    names = [*run.settings.images, *run.settings.ood] if images is None else images.split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def measure(run: Run, images: Sequence[str], split: str, tasks: int, seed: int, workers: int | None) -> list[Row]:
    """One row for each image set and, for several, one for their mean."""
    from anyshot.metrics import average
    from anyshot.progress import progress
    from anyshot.tasks import TaskStream
    from anyshot.testing import evaluate

    method = run.load_method()
    rows: list[Row] = []
    for name in images:
        imageset = run.imageset(name)
        stream = TaskStream(imageset, split, run.settings.task, seed)
        with progress(f"Testing {method.name} on {imageset.name}", tasks) as advance:
            summary = evaluate(method, stream, tasks, workers=workers, advance=advance)
        rows.append(({"run": run.folder.name, "method": method.name, "images": imageset.name}, summary))
    if len(rows) > 1:
        rows.append(({**rows[0][0], "images": "mean"}, average([summary for _, summary in rows])))
    return rows


def task_text(runs: Sequence[Run]) -> str:
    """5-way any-shot:1-50, 15 query images a class, transductive."""
    way, shots, query = dataclasses.astuple(runs[0].settings.task)
    ways = {True: "transductive", False: "one image at a time"}
    named: dict[bool, list[str]] = {}
    for run in runs:
        named.setdefault(run.settings.method.transductive, []).append(run.folder.name)
    whose = [ways[key] + (f" ({', '.join(names)})" if len(named) > 1 else "") for key, names in named.items()]
    return f"{way}-way {shots}, {query} query images a class, {', '.join(whose)}"
