"""anyshot inspect: what ω, γ and z did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.options import Json, options
from anyshot.cli.test import Images, OfSplit, Seed, Tasks, image_names, opened

if TYPE_CHECKING:
    from anyshot.inspection import BalanceRecord
    from anyshot.runs import Run


@options("task", "method.transductive", default="the run's")
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run of taml.")],
    images: Images = None,
    split: OfSplit = "test",
    tasks: Tasks = 100,
    seed: Seed = 0,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="For the figures, PNG and SVG. Default: RUN/figures.")
    ] = None,
    json: Json = None,
    **chosen: Any,
) -> None:
    """Look inside Bayesian TAML: its balancing variables for a set of tasks, as tables and figures.

    The class balance ω against class size, the step size multipliers γ of each layer against task size, and the shift
    of the start ‖z‖ for each image set: posterior means and deviations.

    Example: anyshot inspect runs/taml --images glyphs,digits
    """
    from anyshot.report.tables import balance_summary, balance_tables, print_tables, write_results

    (run,) = opened([folder], chosen)
    records = look(run, image_names(run, images), split, tasks, seed)
    print_tables(*balance_tables(records))
    print("Figures:", *draw([run], records, figures or folder / "figures"))
    if json:
        results = {**balance_summary(records), "tasks": records}
        write_results(json, results, run=folder, settings=run.settings.as_dict(), split=split, seeds=[seed])


def look(run: Run, images: Sequence[str], split: str, tasks: int, seed: int) -> list[BalanceRecord]:
    """The records of `tasks` tasks of each image set."""
    from anyshot.inspection import inspect_task
    from anyshot.progress import progress
    from anyshot.tasks import TaskStream

    method, records = run.load_method(), []
    for name in images:
        stream = TaskStream(run.imageset(name), split, run.settings.task, seed)
        with progress(f"Looking at tasks of {name}", tasks) as advance:
            for index in range(tasks):
                records.append(inspect_task(method, stream.task(index)))
                advance()
    return records


def draw(runs: Sequence[Run], records: Sequence[BalanceRecord], folder: Path) -> list[Path]:
    """The figures of the balancing variables and of the training; the files that were written."""
    from anyshot.report.figures import balance_figures, save_figure, training_figure

    logs = {run.folder.name: run.records() for run in runs}
    figures = {**balance_figures(records), "training": training_figure(logs)}
    return [path for name, figure in figures.items() for path in save_figure(figure, folder / name)]
