"""anyshot train: learn to learn."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.cli.options import EVERYTHING, Device, Json, Workers, options
from anyshot.cli.running import Folder, Preset, Show, Tensorboard, carried_out
from anyshot.lists import short

if TYPE_CHECKING:
    from rich.table import Table

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
    from anyshot.report.tables import print_tables, write_results

    validations, best = list(run.records("validation")), run.best().state
    if validations:
        print_tables(_table(run, validations, best))
    else:
        print("There are no classes to validate on, so the parameters of the last iteration are the run's.")
    place = shlex.quote(str(run.folder))
    print(f"The run is in {place}. Next: anyshot test {place}")
    if json:
        results = {"validations": validations, "chosen": best}
        write_results(json, results, run=run.folder, settings=run.settings.as_dict(), seeds=[run.settings.train.seed])


def _table(run: Run, validations: list[dict[str, Any]], best: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    sets = [name for name in validations[-1] if name not in {"kind", "iteration", "selection"}]
    table = Table(title=f"{short(run.settings.method.name)}: validation accuracy, %", box=box.SIMPLE_HEAD)
    for column in ("iteration", *sets, ""):
        table.add_column(Text(column), justify="right")  # not markup: a folder may be called [/b]
    for record in validations:
        chosen = "chosen" if record["iteration"] == best["iteration"] else ""
        table.add_row(str(record["iteration"]), *(f"{100 * record[name]:.1f}" for name in sets), chosen)
    return table
