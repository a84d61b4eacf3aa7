"""anyshot warm: a body that already sees, for any method to start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.cli.settings_options import Device, Json, Workers, options
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

if TYPE_CHECKING:
    from anyshot.runs.run import Run

OPTIONS = ("images", "ood", "task", "method.body", "method.channels", "train.seed", "warm")


@options(*OPTIONS)
def pretrain(
    folder: Folder = None,
    preset: Preset = None,
    show: Show = False,
    tensorboard: Tensorboard = None,
    workers: Workers = None,
    device: Device = "auto",
    json: Json = None,
    **chosen: Any,
) -> None:
    """Train a body to tell all training classes apart, or go on with a warm start that was interrupted.

    Images, tasks and body come from the preset, then from the options below. Every few epochs class means alone are
    tested on the validation classes. Any method starts from what this leaves: anyshot train NEW --from RUN.

    Example: anyshot warm runs/warm --preset cifar-fs
    """

    from anyshot.training.presets import pretraining_settings

    def start(*arguments: Any, **named: Any) -> Run:
        from anyshot.core.parallel.device import choose_device
        from anyshot.training.pretraining import pretrain

        with process_group(choose_device(device)):
            return pretrain(
                *arguments, **named, workers=workers, tensorboard=tensorboard, device=device
            )

    if run := run_training_command(
        "warm", start, folder, preset, chosen, json, show, OPTIONS, pretraining_settings
    ):
        _show(run, json)


def _show(run: Run, json: Path | None) -> None:
    """The checks, and what can be done next."""
    from anyshot.evaluation.report.tables import print_tables

    checks = list(run.records("check"))
    if len(checks[-1]) > 2:  # there are classes to check on
        print_tables(
            accuracy_table(
                "Class means alone on the validation classes: accuracy, %", "epoch", checks
            )
        )
    print_next_step(run, "train NEW --from", {"checks": checks}, json)
