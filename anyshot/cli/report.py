"""anyshot report: write one HTML page about any number of runs."""

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
    print_time_estimate,
)
from anyshot.cli.settings_options import Device, Workers, add_setting_options

INSPECTED = 100  # tasks at most that ω, γ and z are computed for


@add_setting_options(
    "task", "method.prediction", "method.samples", "method.transductive", default="the run's"
)
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of one or several runs.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file.")] = Path("report.html"),
    images: Images = None,
    split: Split = "test",
    tasks: Tasks = 100,
    seed: Seed = 0,
    workers: Workers = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    **chosen: Any,
) -> None:
    """Test runs, inspect them and write everything to one self-contained HTML page.

    The page shows the table of results, accuracy by shots, calibration diagrams, learning curves,
    ω, γ and z of TAML runs, and a sample task of each image set with the predictions. It loads
    nothing from elsewhere.

    Example: anyshot report runs/maml runs/taml --images glyphs,digits --out report.html
    """
    from anyshot.core.files import write_bytes
    from anyshot.evaluation.compare_runs import evaluate_runs, plan_runs
    from anyshot.evaluation.report.run_page import report_page
    from anyshot.evaluation.report.tables import describe_tasks

    check_files(out)
    runs = open_runs(folders, chosen, trust_code)
    trials = plan_runs(runs, parse_images(images), split, seed, device)
    notes = print_size_warnings(trials)
    print_time_estimate(trials, tasks, workers)
    rows = evaluate_runs(trials, tasks, workers)
    title = f"{tasks} tasks of the {split} split, {describe_tasks(runs, notes)}. {' '.join(notes)}"
    page = report_page(runs, trials, rows, min(tasks, INSPECTED), title)
    write_bytes(out, page.encode(errors="backslashreplace"))
    print(f"Wrote {out}.")
