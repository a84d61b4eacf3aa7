"""anyshot inspect: show the balancing variables ω, γ and z of a TAML run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyshot.cli.common import (
    Images,
    Seed,
    Split,
    Tasks,
    TrustCode,
    check_files,
    open_runs,
    parse_images,
    print_size_warnings,
)
from anyshot.cli.settings_options import Device, Json, add_setting_options


@add_setting_options("task", "method.transductive", default="the run's")
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run of taml.")],
    images: Images = None,
    split: Split = "test",
    tasks: Tasks = 100,
    seed: Seed = 0,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the figures, PNG and SVG. Default: RUN/figures."
        ),
    ] = None,
    json: Json = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    **chosen: Any,
) -> None:
    """Show the balancing variables of Bayesian TAML for a set of tasks, as tables and figures.

    The class weights ω by class size, the step-size multipliers γ of each layer by task size, and
    the size ‖z‖ of the shift of the initialisation by image set: posterior means and standard
    deviations.

    Example: anyshot inspect runs/taml --images glyphs,digits
    """
    from anyshot.evaluation.compare_runs import plan_runs
    from anyshot.evaluation.inspection import inspect_runs
    from anyshot.evaluation.report.balancing_figures import save_inspection_figures
    from anyshot.evaluation.report.balancing_tables import balance_summary, balance_tables
    from anyshot.evaluation.report.result_files import write_results
    from anyshot.evaluation.report.tables import print_tables

    (run,) = open_runs([folder], chosen, trust_code)
    figures = figures or folder / "figures"
    check_files(json, figures / "training.png")
    trials = plan_runs([run], parse_images(images), split, seed, device)
    notes = print_size_warnings(trials)
    records = inspect_runs(trials, tasks)
    print_tables(*balance_tables(records))
    print("Figures:", *save_inspection_figures([run], records, figures))
    if json:
        results = {**balance_summary(records), "tasks": records}
        write_results(
            json,
            results,
            run=folder,
            settings=run.settings.as_dict(),
            split=split,
            seeds=[seed],
            notes=notes,
        )
