"""anyshot test: evaluate runs on tasks of new classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyshot.cli.common import (
    Csv,
    Images,
    Seed,
    Split,
    Tasks,
    TrustCode,
    check_files,
    open_runs,
    parse_images,
    print_results,
    print_size_warnings,
    print_time_estimate,
)
from anyshot.cli.setting_fields import split_commas
from anyshot.cli.settings_options import Device, Json, Workers, add_setting_options
from anyshot.core.code_loading import fingerprint
from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import process_group, rank
from anyshot.core.registry import METRICS

PerTask = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also write the results of every task to this CSV file, one line each."
    ),
]
PoolSeeds = Annotated[
    bool,
    typer.Option("--pool-seeds", help="Combine runs that differ only in their seed into one row."),
]
ExtraMetrics = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help=f"Additional metrics: {', '.join(METRICS)}, or FILE.py:NAME. Default: none.",
    ),
]

Folders = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Folders of one or several runs.")
]


@add_setting_options(
    "task",
    "method.prediction",
    "method.samples",
    "method.test_steps",
    "method.transductive",
    "method.flips",
    "method.zooms",
    "method.shift",
    "method.remedy",
    default="the run's",
)
def test(
    folders: Folders,
    images: Images = None,
    split: Split = "test",
    tasks: Tasks = 1000,
    seed: Seed = 0,
    pool_seeds: PoolSeeds = False,
    workers: Workers = None,
    device: Device = "auto",
    trust_code: TrustCode = False,
    json: Json = None,
    csv: Csv = None,
    per_task: PerTask = None,
    metrics: ExtraMetrics = None,
    **chosen: Any,
) -> None:
    """Test trained runs on tasks of new classes, on one or several image sets.

    The table shows for each run and image set: the mean accuracy over tasks with its 95 % interval,
    the negative log-likelihood (NLL), the expected calibration error (ECE), the mean over tasks of
    the lowest class accuracy ("worst class"), and the accuracy by the number of support images of a
    class with the number n of query images. Several runs get the same tasks. A second table then
    shows the difference of each run to the first, task by task.

    Example: anyshot test runs/maml runs/taml --images glyphs,digits
    --shots class-imbalance:1-50 --json out.json
    """
    from anyshot.core.parallel.device import choose_device
    from anyshot.evaluation import compare_runs
    from anyshot.evaluation.report import result_files
    from anyshot.evaluation.report.tables import describe_tasks

    check_files(json, csv, per_task)
    extra = parse_metrics(metrics)
    with process_group(choose_device(device)):
        runs = open_runs(folders, chosen, trust_code)
        trials = compare_runs.plan_runs(runs, parse_images(images), split, seed, device)
        if pool_seeds:
            compare_runs.check_poolable(trials)
        notes = print_size_warnings(trials)
        print_time_estimate(trials, tasks, workers)
        single = compare_runs.evaluate_runs(trials, tasks, workers, extra)
    if rank():
        return
    rows = compare_runs.add_differences(compare_runs.pool_rows(single) if pool_seeds else single)
    print_results(rows, f"Classes of the {split} split, {describe_tasks(runs, notes)}")
    if csv:
        result_files.write_csv(csv, rows)
    if per_task:
        result_files.write_per_task(per_task, single)
    if json:
        result_files.write_results(
            json,
            result_files.results_as_json(rows),
            settings={trial.name: trial.settings.as_dict() for trial in trials},
            split=split,
            tasks=tasks,
            seeds=[seed],
            notes=notes,
            metrics={name: fingerprint(name) for name in extra if not METRICS.is_builtin(name)},
        )


def parse_metrics(metrics: str | None) -> list[str]:
    """Split the value of --metrics into names of the registry and check that each exists."""
    if metrics is None:
        return []
    names = [METRICS.canonical_name(name) for name in split_commas(metrics, "metrics")]
    try:
        for name in names:
            METRICS[name]
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from error
    return names
