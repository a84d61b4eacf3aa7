"""anyshot train: train a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.setting_fields import EVERYTHING
from anyshot.cli.settings_options import (
    Address,
    Device,
    Jobs,
    Json,
    On,
    Workers,
    add_setting_options,
)
from anyshot.cli.training_commands import (
    Folder,
    Preset,
    Show,
    Tensorboard,
    accuracy_table,
    print_next_step,
    run_training_command,
)
from anyshot.core.parallel.ranks import process_group
from anyshot.core.registry import display_name

if TYPE_CHECKING:
    from anyshot.core.settings import Settings
    from anyshot.runs.run import Run


@add_setting_options(*EVERYTHING, default="")
def train(
    folder: Folder = None,
    preset: Preset = None,
    show: Show = False,
    tensorboard: Tensorboard = None,
    workers: Workers = None,
    device: Device = "auto",
    json: Json = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            metavar="N",
            help="Train N runs, RUN/seed-0 and so on, from --seed upwards.",
        ),
    ] = 1,
    jobs: Jobs = None,
    on: On = "local",
    address: Address = None,
    **chosen: Any,
) -> None:
    """Train a method, or continue a run that was interrupted.

    The settings come from the preset, then from the options below; `--show` prints them. A run that
    exists continues from its last checkpoint with its own settings, to the same parameters as if it
    had not been interrupted; `--iterations` can extend it. `torchrun --nproc-per-node N -m anyshot
    train …` trains one run on several processes or machines; `--seeds` trains several runs.

    Example: anyshot train runs/taml --preset glyphs --iterations 500
    """
    from anyshot.training.stages import train

    context: dict[str, Any] = {"workers": workers, "tensorboard": tensorboard, "device": device}

    def start(settings: Settings, folder: Path, command: str) -> list[Run]:
        from anyshot.core.parallel.device import choose_device
        from anyshot.experiments.seeds import train_seeds

        if seeds > 1:
            grid: dict[str, Any] = {"on": on, "jobs": jobs, "address": address}
            return train_seeds(settings, folder, seeds, **grid, command=command, **context)
        with process_group(choose_device(device)):
            return [train(settings, folder, command=command, **context)]

    runs = run_training_command("train", start, folder, preset, chosen, json, show)
    if runs and seeds > 1:
        _print_seeds(runs, json)
    elif runs:
        _print_run(runs[0], json)


def _print_seeds(runs: Sequence[Run], json: Path | None) -> None:
    """Print the selected parameters of each run, and the next command."""
    from anyshot.evaluation.report.result_files import write_results

    selected = {run.folder.name: run.best().state for run in runs}
    for name, state in selected.items():
        score = state["selection"]
        accuracy = "" if score is None else f", validation {100 * score:.1f}"
        print(f"{name}: iteration {state['iteration']}{accuracy}")
    folders = " ".join(shlex.quote(str(run.folder)) for run in runs)
    print(f"Next: anyshot test {folders} --pool-seeds")
    if json:
        write_results(
            json,
            selected,
            settings=runs[0].settings.as_dict(),
            seeds=[run.settings.train.seed for run in runs],
        )


def _print_run(run: Run, json: Path | None) -> None:
    """Print the validations with the selected one, and the next command."""
    from anyshot.evaluation.report.tables import print_tables

    if run.settings.pretrains_only:
        print_next_step(run, "train NEW --from", {"checks": list(run.records("check"))}, json)
        return
    validations = list(run.records("validation"))
    best = run.best().state
    if validations:
        title = f"{display_name(run.settings.method.name)}: validation accuracy, %"
        print_tables(accuracy_table(title, "iteration", validations, best["iteration"]))
    else:
        print("There are no validation classes, so the last parameters are selected.")
    print_next_step(run, "test", {"validations": validations, "chosen": best}, json)
