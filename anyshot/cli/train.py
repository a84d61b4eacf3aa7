"""anyshot train: learn to learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.cli.options import EVERYTHING, Device, Json, Workers, options
from anyshot.cli.running import Folder, Preset, Show, Tensorboard, accuracy_table, carried_out, say_next
from anyshot.lists import short

if TYPE_CHECKING:
    from anyshot.runs import Run


@options(*EVERYTHING, default="")
def train(
    folder: Folder = None,
    preset: Preset = None,
    show: Show = False,
    tensorboard: Tensorboard = None,
    workers: Workers = None,
    device: Device = "auto",
    json: Json = None,
    **chosen: Any,
) -> None:
    """Meta-train a method, or go on with a run that was interrupted.

    Settings come from the preset, then from the options below; `--show` prints them. A run that exists goes on from its
    last checkpoint with its own settings, to the same parameters as if it had never stopped; `--iterations` may make it
    longer.

    Example: anyshot train runs/taml --preset glyphs --iterations 500
    """

    def start(*arguments: Any, **named: Any) -> Run:
        from anyshot.training import train

        return train(*arguments, **named, workers=workers, tensorboard=tensorboard, device=device)

    if run := carried_out("train", start, folder, preset, chosen, json, show):
        _show(run, json)


def _show(run: Run, json: Path | None) -> None:
    """The validations, which of them was chosen, and what can be done next."""
    from anyshot.report.tables import print_tables

    validations, best = list(run.records("validation")), run.best().state
    if validations:
        title = f"{short(run.settings.method.name)}: validation accuracy, %"
        print_tables(accuracy_table(title, "iteration", validations, best["iteration"]))
    else:
        print("There are no classes to validate on, so the parameters of the last iteration are the run's.")
    say_next(run, "test", {"validations": validations, "chosen": best}, json)
