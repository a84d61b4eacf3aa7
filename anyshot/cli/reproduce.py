"""anyshot reproduce: every table and figure of the paper, and those of one's own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.common import format_duration
from anyshot.cli.settings_options import Address, Jobs, On, Workers, split_commas
from anyshot.core.registry import EXPERIMENTS

if TYPE_CHECKING:
    from anyshot.experiments.reproduce import Request
    from anyshot.experiments.scale import DataChoice


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"One of {', '.join(EXPERIMENTS)}; a file of your own; or list."
        ),
    ],
    scale: Annotated[
        Literal["smoke", "short", "paper"],
        typer.Option(
            metavar="NAME",
            help="smoke (a minute, on embedded images), short (hours) or paper (days).",
        ),
    ] = "short",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="A+B,C",
            help="Other image sets, names or folders: those to learn from, then others to test on.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Only the columns of these image sets. Default: all that are ready."
        ),
    ] = None,
    recipe: Annotated[
        Literal["anyshot", "paper"] | None,
        typer.Option(
            metavar="anyshot|paper",
            help="Start from one warm body, or as the paper does. Default: the scale's own.",
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="A warm start that is there (anyshot warm), or named weights.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs of each model.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Test tasks for each column.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Meta-iterations of each run.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="For the runs, which experiments share, and the results."
        ),
    ] = (Path("runs/reproduce")),
    jobs: Jobs = None,
    on: On = "local",
    address: Address = None,
    workers: Workers = None,
) -> None:
    """Run an experiment of the paper end to end: train what is missing, test, tabulate, draw.

    Leaves results.json, table.md, table.tex, figures and report.html in a folder of `--out`. Interrupted, the same
    command goes on; what was done is not done again, not even by another experiment that needs it. `anyshot reproduce
    list` shows all with what they need.

    Example: anyshot reproduce any-shot --scale short --columns cifar-fs,svhn
    """
    from anyshot.core.files import check_writable
    from anyshot.experiments.reproduce import Request, find_experiment

    if name == "list":
        return _list()
    request = Request(
        find_experiment(name), scale, out, _data(data), tuple(split_commas(columns, "columns")) if columns else (), recipe,
        None if start is None else str(start), seeds, tasks, iterations,
    )  # fmt: skip
    check_writable(request.folder / "results.json")
    _run(request, jobs=jobs, workers=workers, on=on, address=address)


def _run(request: Request, **how: Any) -> None:
    from anyshot.evaluation.report.paper_table import rich_table
    from anyshot.evaluation.report.tables import print_tables
    from anyshot.experiments.reproduce import reproduce, tables

    outcome = reproduce(request, command=shlex.join(["anyshot", *sys.argv[1:]]), **how)
    name = outcome.plan.experiment.title
    if shown := [rich_table(lines, f"{name}. {title}") for title, lines in tables(outcome).items()]:
        print_tables(*shown)
    print(*outcome.notes, sep="\n")
    print(f"In {request.folder}: results.json, table.md, table.tex, figures and report.html.")


def _data(text: str | None) -> DataChoice | None:
    """--data a+b,c: learn from a and b, test on c as well."""
    from anyshot.experiments.scale import DataChoice

    if text is None:
        return None
    first, *others = split_commas(text, "data")
    return DataChoice(tuple(first.split("+")), tuple(others))


def _list() -> None:
    """All experiments: what they need, what is ready, how long they take here."""
    from rich import box
    from rich.table import Table

    from anyshot.evaluation.report.tables import print_tables
    from anyshot.experiments.estimate import listing

    caption = "Foretold from a few measured tasks, as if nothing had been done before."
    table = Table(box=box.SIMPLE_HEAD, caption=caption)
    for heading in ("name", "what", "needs (– not ready)", "runs", "short", "paper"):
        table.add_column(heading)
    for one in listing():
        needs = ", ".join(f"{'' if ready else '– '}{images}" for images, ready in one.needs.items())
        times = [format_duration(seconds) if seconds else "–" for seconds in (one.short, one.paper)]
        table.add_row(one.name, one.title, needs, str(one.runs), *times)
    print_tables(table)
