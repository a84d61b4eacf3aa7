"""anyshot pretrain: pre-train a backbone, which any method can start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.cli.settings_options import Device, Json, Workers, add_setting_options
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
    from anyshot.core.settings import Settings
    from anyshot.runs.run import Run

OPTIONS = ("images", "ood", "task", "method.body", "method.channels", "pretrain")


@add_setting_options(*OPTIONS)
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
    """Pre-train a backbone on all training classes, or continue a pre-training.

    Images, tasks and backbone come from the preset, then from the options below. Every few epochs
    the backbone is validated by class prototypes on the validation classes. Any method can start
    from the result: anyshot train NEW --from RUN. Presets such as cifar-fs include this stage.

    Example: anyshot pretrain runs/body --preset cifar-fs
    """

    from anyshot.training.presets import pretraining_settings

    def start(settings: Settings, folder: Path, command: str) -> Run:
        from anyshot.core.parallel.device import choose_device
        from anyshot.training.stages import pretrain

        with process_group(choose_device(device)):
            return pretrain(
                settings,
                folder,
                command=command,
                workers=workers,
                tensorboard=tensorboard,
                device=device,
            )

    run = run_training_command(
        "pretrain", start, folder, preset, chosen, json, show, OPTIONS, pretraining_settings
    )
    if run:
        _print_run(run, json)


def _print_run(run: Run, json: Path | None) -> None:
    """Print the validations and the next command."""
    from anyshot.evaluation.report.tables import print_tables

    checks = list(run.records("check"))
    if len(checks[-1]) > 2:  # there are validation classes
        title = "Class prototypes on the validation classes: accuracy, %"
        print_tables(accuracy_table(title, "epoch", checks))
    print_next_step(run, "train NEW --from", {"checks": checks}, json)
