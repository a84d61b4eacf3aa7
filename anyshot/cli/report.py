"""anyshot report: one page on any set of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyshot.cli.settings_options import Device, Workers, options
from anyshot.cli.test import (
    Images,
    OfSplit,
    Seed,
    Tasks,
    check_files,
    image_names,
    open_runs,
    print_size_warnings,
    print_time,
    task_text,
)


@options("task", "method.prediction", "method.samples", "method.transductive", default="the run's")
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of one or several runs.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page.")] = Path("report.html"),
    images: Images = None,
    split: OfSplit = "test",
    tasks: Tasks = 100,
    seed: Seed = 0,
    workers: Workers = None,
    device: Device = "auto",
    **chosen: Any,
) -> None:
    """Make one self-contained page on runs: tests them, looks inside, and shows what they answer.

    Learning curves, the table, accuracy by shots, calibration diagrams, ω, γ and z where a run has them, and a sample
    task of each image set with the answers. The page needs nothing but a browser.

    Example: anyshot report runs/maml runs/taml --images glyphs,digits --out report.html
    """
    from anyshot.core.files import write_bytes
    from anyshot.evaluation.compare_runs import evaluate_runs, plan_runs
    from anyshot.evaluation.report.run_page import report_page

    check_files(out)
    runs = open_runs(folders, chosen)
    trials = plan_runs(runs, image_names(images), split, seed, device)
    notes = print_size_warnings(trials)
    print_time(trials, tasks, workers)
    rows = evaluate_runs(trials, tasks, workers)
    title = f"{tasks} tasks of the {split} split, {task_text(runs, notes)}. {' '.join(notes)}"
    write_bytes(
        out,
        report_page(runs, trials, rows, min(tasks, 100), title).encode(errors="backslashreplace"),
    )
    print(f"The page is {out}.")
