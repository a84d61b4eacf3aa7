"""anyshot inspect: what ω, γ and z did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.settings_options import Device, Json, options
from anyshot.cli.test import (
    Images,
    OfSplit,
    Seed,
    Tasks,
    check_files,
    image_names,
    open_runs,
    print_size_warnings,
)

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import RunOnSet
    from anyshot.evaluation.inspection import BalanceRecord
    from anyshot.runs.run import Run


@options("task", "method.transductive", default="the run's")
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run of taml.")],
    images: Images = None,
    split: OfSplit = "test",
    tasks: Tasks = 100,
    seed: Seed = 0,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For the figures, PNG and SVG. Default: RUN/figures."),
    ] = None,
    json: Json = None,
    device: Device = "auto",
    **chosen: Any,
) -> None:
    """Look inside Bayesian TAML: its balancing variables for a set of tasks, as tables and figures.

    The class balance ω against class size, the step size multipliers γ of each layer against task size, and the shift
    of the start ‖z‖ for each image set: posterior means and deviations.

    Example: anyshot inspect runs/taml --images glyphs,digits
    """
    from anyshot.evaluation.compare_runs import plan_runs
    from anyshot.evaluation.report.balancing_tables import balance_summary, balance_tables
    from anyshot.evaluation.report.tables import print_tables, write_results

    (run,) = open_runs([folder], chosen)
    figures = figures or folder / "figures"
    check_files(json, figures / "training.png")
    trials = plan_runs([run], image_names(images), split, seed, device)
    notes = print_size_warnings(trials)
    records = inspect_runs(trials, tasks)
    print_tables(*balance_tables(records))
    print("Figures:", *save_figures([run], records, figures))
    if json:
        results = {**balance_summary(records), "tasks": records}
        facts = {
            "settings": run.settings.as_dict(),
            "split": split,
            "seeds": [seed],
            "notes": notes,
        }
        write_results(json, results, run=folder, **facts)


def inspect_runs(trials: Sequence[RunOnSet], tasks: int) -> list[BalanceRecord]:
    """The records of `tasks` tasks of each image set."""
    from anyshot.evaluation.inspection import inspect_stream

    return [
        record for trial in trials for record in inspect_stream(trial.method, trial.stream, tasks)
    ]


def save_figures(runs: Sequence[Run], records: Sequence[BalanceRecord], folder: Path) -> list[Path]:
    """The figures of the balancing variables and of the training; the files that were written."""
    from anyshot.evaluation.report.figures import balance_figures, save_figure, training_figure

    logs = {run.folder.name: run.records() for run in runs}
    figures = {**balance_figures(records), "training": training_figure(logs)}
    return [path for name, figure in figures.items() for path in save_figure(figure, folder / name)]
