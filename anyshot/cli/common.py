"""Options and messages that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyshot.cli.setting_fields import split_commas
from anyshot.cli.settings_options import settings_of_runs
from anyshot.core.text import join_words

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow, RunOnSet
    from anyshot.runs.run import Run

log = logging.getLogger(__name__)

Images = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Image sets: names or folders. Default: the image sets of the run."
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of the tasks; every method gets the same tasks."),
]
Tasks = Annotated[int, typer.Option(min=1, metavar="N", help="Tasks for each image set.")]
Split = Annotated[
    Literal["test", "validation", "val", "train"],
    typer.Option(
        metavar="NAME",
        help="Split of the classes: test, validation (or val) or train.",
        callback=lambda split: "validation" if split == "val" else split,
    ),
]
Csv = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the results to this CSV file.")
]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Execute code of the run that does not come with anyshot."),
]
ESTIMATE_FROM = 100  # tasks: from this number on, the commands print how long the work will take


def check_files(*paths: Path | None) -> None:
    """Check that the output files can be written, before the work begins."""
    from anyshot.core.files import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def log_written(*paths: Path | None) -> None:
    """Say which output files were written."""
    written = [str(path) for path in paths if path is not None]
    if written:
        log.info("Wrote %s.", join_words(written))


def open_runs(
    folders: Sequence[Path], chosen: Mapping[str, Any], trust_code: bool = False
) -> list[Run]:
    """Open the runs and replace the settings that the command's options choose."""
    from anyshot.runs.run import Run

    runs = [Run(folder, trust_code) for folder in folders]
    for run in runs:
        run.resolve_settings()  # refuses code that is not trusted before anything loads it
    settings = settings_of_runs([run.settings for run in runs], chosen)
    for run, changed in zip(runs, settings, strict=True):
        run.settings = changed
    return runs


def parse_images(images: str | None) -> list[str] | None:
    """Split the value of --images; None stands for all image sets of the run."""
    return None if images is None else list(dict.fromkeys(split_commas(images, "images")))


def print_size_warnings(trials: Sequence[RunOnSet]) -> list[str]:
    """Warn before the work about classes that are too small for the tasks; return the warnings."""
    from anyshot.evaluation.compare_runs import size_warnings

    warnings = size_warnings(trials)
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def print_time_estimate(trials: Sequence[RunOnSet], tasks: int, workers: int | None) -> None:
    """Print before the work how long many tasks will take."""
    from anyshot.evaluation.compare_runs import estimate_seconds

    if tasks < ESTIMATE_FROM:
        return
    time = format_duration(estimate_seconds(trials, tasks, workers))
    log.info(
        "%d × %s tasks will take about %s (--tasks N for fewer).", len(trials), f"{tasks:,}", time
    )


def format_duration(seconds: float) -> str:
    """Write a time in its fitting unit: 40 seconds, 26 minutes, 3.5 hours, 12 days."""
    if seconds < 99.5:
        return f"{seconds:.0f} seconds"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} minutes"
    if seconds < 99.5 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.0f} days"


def print_results(rows: Sequence[ResultRow], title: str) -> None:
    """Print the table of results and the table of differences to the first run."""
    from anyshot.evaluation.compare_runs import unpaired_reasons
    from anyshot.evaluation.report.tables import paired_table, print_tables, summary_table

    differences = paired_table(rows)
    print_tables(summary_table(rows, title), *([differences] if differences else []))
    for reason in unpaired_reasons(rows):
        log.warning("%s", reason)
