"""anyshot train: learn to learn."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.options import Json, Workers, options, settings_with
from anyshot.errors import AnyshotError
from anyshot.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from anyshot.runs import Run


def _preset_names() -> list[str]:
    from anyshot.presets import PRESETS

    return list(PRESETS)


@options("images", "ood", "mixing", "task", "method", "train")
def train(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run: settings, log and checkpoints.")],
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Settings to start from: glyphs (minutes; the default), or the paper's cifar-fs, miniimagenet, multi.",
            autocompletion=_preset_names,
        ),
    ] = None,
    workers: Workers = None,
    json: Json = None,
    **chosen: Any,
) -> None:
    """Meta-train a method, or go on with a run that was interrupted.

    Settings come from the preset, then from the options below, whose defaults are the paper's. A run that exists goes
    on from its last checkpoint with its own settings, to the same parameters as if it had never stopped.

    Example: anyshot train runs/taml --preset glyphs --iterations 500
    """
    settings = _settings(folder, preset, chosen)
    from anyshot.training import train as train_run

    run = train_run(settings, folder, workers=workers, command=shlex.join(["anyshot", *sys.argv[1:]]))
    _show(run, json)


def _settings(folder: Path, preset: str | None, chosen: dict[str, Any]) -> Settings:
    if preset is None and (folder / "run.json").is_file():
        from anyshot.runs import Run

        return settings_with(Run(folder).settings, chosen)
    from anyshot import presets

    try:
        base = presets.preset(preset or "glyphs", chosen.get("method") or "taml")
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--preset") from error
    return settings_with(base, chosen)


def _show(run: Run, json: Path | None) -> None:
    """The validations, which of them was chosen, and what can be done next."""
    from anyshot.report.tables import print_tables, write_results

    validations, best = list(run.records("validation")), run.best().state
    if validations:
        print_tables(_table(run, validations, best))
    else:
        print("There are no classes to validate on, so the parameters of the last iteration are the run's.")
    print(f"The run is in {run.folder}. Next: anyshot test {run.folder}")
    if json:
        results = {"validations": validations, "chosen": best}
        write_results(json, results, run=run.folder, settings=run.settings.as_dict(), seeds=[run.settings.train.seed])


def _table(run: Run, validations: list[dict[str, Any]], best: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    sets = [name for name in validations[-1] if name not in {"kind", "iteration", "selection"}]
    table = Table(title=f"{run.settings.method.name}: validation accuracy, %", box=box.SIMPLE_HEAD)
    for column in ("iteration", *sets, ""):
        table.add_column(column, justify="right")
    for record in validations:
        chosen = "chosen" if record["iteration"] == best["iteration"] else ""
        table.add_row(str(record["iteration"]), *(f"{100 * record[name]:.1f}" for name in sets), chosen)
    return table
