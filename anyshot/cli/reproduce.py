"""anyshot reproduce: the tables and figures of the paper, and those of your own experiments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.common import format_duration
from anyshot.cli.setting_fields import split_commas
from anyshot.cli.settings_options import Address, Jobs, On, Workers
from anyshot.core.registry import EXPERIMENTS

if TYPE_CHECKING:
    from anyshot.experiments.reproduce import Request
    from anyshot.experiments.scale import DataChoice

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help=f"One of {', '.join(EXPERIMENTS)}; your own FILE.py; or list."
    ),
]
ScaleName = Annotated[
    Literal["smoke", "short", "paper"],
    typer.Option(
        metavar="NAME",
        help="smoke (a minute, embedded images), short (hours) or paper (days).",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="A+B,C",
        help="Other image sets, names or folders: training sets joined by +, then test sets.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Only the columns of these image sets. Default: all that are ready."
    ),
]
Models = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Only these rows of the table, with their variants."),
]
Recipe = Annotated[
    Literal["anyshot", "paper"] | None,
    typer.Option(
        metavar="anyshot|paper",
        help="One pre-trained body for all models, or from scratch as in the paper. "
        "Default: the scale's.",
    ),
]
Start = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="RUN", help="An existing pre-trained body: a run, or named weights."
    ),
]
Seeds = Annotated[int | None, typer.Option(min=1, metavar="N", help="Runs of each model.")]
Tasks = Annotated[int | None, typer.Option(min=2, metavar="N", help="Test tasks of each column.")]
Iterations = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Meta-training iterations of each run.")
]
ValidationTasks = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Tasks of each validation.")
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="For the results, and for the runs, which experiments share."
    ),
]


def reproduce(
    name: Name,
    scale: ScaleName = "short",
    data: Data = None,
    columns: Columns = None,
    models: Models = None,
    recipe: Recipe = None,
    start: Start = None,
    seeds: Seeds = None,
    tasks: Tasks = None,
    iterations: Iterations = None,
    validation_tasks: ValidationTasks = None,
    out: Out = Path("runs/reproduce"),
    jobs: Jobs = None,
    on: On = "local",
    address: Address = None,
    workers: Workers = None,
) -> None:
    """Run an experiment: train what is missing, test, and write tables and figures.

    Writes results.json, table.md, table.tex, figures and report.html into a folder below `--out`.
    After an interruption, run the same command again: finished runs and measurements are kept, and
    experiments share them. `anyshot reproduce list` shows all experiments and what they need.

    Example: anyshot reproduce any-shot --scale short --columns cifar-fs,svhn
    """
    from anyshot.core.files import check_writable
    from anyshot.experiments.reproduce import Request, find_experiment

    if name == "list":
        return _print_list()
    request = Request(
        find_experiment(name),
        scale=scale,
        out=out,
        data=_parse_data(data),
        columns=tuple(split_commas(columns, "columns")) if columns else (),
        models=tuple(split_commas(models, "models")) if models else (),
        recipe=recipe,
        start=None if start is None else str(start),
        seeds=seeds,
        tasks=tasks,
        iterations=iterations,
        validation_tasks=validation_tasks,
    )
    check_writable(request.results_folder / "results.json")
    _run(request, jobs=jobs, workers=workers, on=on, address=address)


def _run(request: Request, **options: Any) -> None:
    from anyshot.evaluation.report.paper_table import rich_table
    from anyshot.evaluation.report.tables import print_tables
    from anyshot.experiments.report_files import tables
    from anyshot.experiments.reproduce import reproduce

    result = reproduce(request, command=shlex.join(["anyshot", *sys.argv[1:]]), **options)
    name = result.plan.experiment.title
    if shown := [rich_table(rows, f"{name}. {title}") for title, rows in tables(result).items()]:
        print_tables(*shown)
    print(*result.notes, sep="\n")
    print(
        f"In {request.results_folder}: results.json, table.md, table.tex, figures and report.html."
    )


def _parse_data(text: str | None) -> DataChoice | None:
    """--data a+b,c: train on a and b, test on these and on c."""
    from anyshot.experiments.scale import DataChoice

    if text is None:
        return None
    train, *test = split_commas(text, "data")
    return DataChoice(tuple(train.split("+")), tuple(test))


def _print_list() -> None:
    """Print all experiments: what they need, what is ready, how long they take here."""
    from rich import box
    from rich.table import Table

    from anyshot.evaluation.report.tables import print_tables
    from anyshot.experiments.estimate import estimate_all

    caption = "Estimates from a few timed tasks, assuming that nothing is cached."
    table = Table(box=box.SIMPLE_HEAD, caption=caption)
    for heading in ("name", "what", "needs (– not ready)", "runs", "short", "paper"):
        table.add_column(heading)
    for one in estimate_all():
        needs = ", ".join(f"{'' if ready else '– '}{images}" for images, ready in one.needs.items())
        times = [format_duration(seconds) if seconds else "–" for seconds in (one.short, one.paper)]
        table.add_row(one.name, one.title, needs, str(one.runs), *times)
    print_tables(table)
