"""anyshot train: learn to learn."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.options import Json, Workers, compared, options, settings_with
from anyshot.errors import AnyshotError
from anyshot.lists import short
from anyshot.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from anyshot.runs import Run


def _preset_names() -> list[str]:
    from anyshot.presets import PRESETS

    return list(PRESETS)


@options("images", "ood", "mixing", "task", "method", "train", default="")
def train(
    folder: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="Folder of the run: settings, log and checkpoints.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Settings to start from: glyphs or pictures (minutes; the default for the embedded glyphs and for "
            "other images), or the paper's cifar-fs, miniimagenet, multi.",
            autocompletion=_preset_names,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only print all settings that would be in force.")] = False,
    tensorboard: Annotated[
        bool | None,
        typer.Option(
            "--tensorboard/--no-tensorboard",
            help="Write event files for TensorBoard. Default: where it is installed.",
            show_default=False,
        ),
    ] = None,
    workers: Workers = None,
    json: Json = None,
    **chosen: Any,
) -> None:
    """Meta-train a method, or go on with a run that was interrupted.

    Settings come from the preset, then from the options below; `--show` prints them. A run that exists goes on from its
    last checkpoint with its own settings, to the same parameters as if it had never stopped; `--iterations` may make it
    longer.

    Example: anyshot train runs/taml --preset glyphs --iterations 500
    """
    if folder is None and not show:
        raise typer.BadParameter("Missing argument 'RUN': the folder of the run.")
    settings, base, source = _settings(folder, preset, chosen)
    if show:
        typer.echo("\n".join([f"Settings from {source}:", *one_by_one(settings, base)]))
        return
    assert folder is not None
    from anyshot.files import check_writable
    from anyshot.training import train as train_run

    if json:
        check_writable(json)
    typer.echo("\n".join([f"Settings from {source}:", *in_brief(settings, base)]), err=True)
    command = shlex.join(["anyshot", *sys.argv[1:]])
    with _interruptible(folder):
        run = train_run(settings, folder, workers=workers, command=command, tensorboard=tensorboard)
    _show(run, json)


@contextmanager
def _interruptible(folder: Path) -> Iterator[None]:
    """Ctrl-C in a run that has begun says how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        from anyshot.runs import Run

        if Run.find(folder) is None:
            raise
        again = f"anyshot train {shlex.quote(str(folder))}"
        raise KeyboardInterrupt(f"The run goes on from its last checkpoint when started again: {again}") from error


def _settings(folder: Path | None, preset: str | None, chosen: dict[str, Any]) -> tuple[Settings, Settings, str]:
    """The settings in force, those before any option, and where these come from."""
    if preset is None and folder is not None:
        from anyshot.runs import Run

        if run := Run.find(folder):
            return settings_with(run.settings, chosen), run.settings, f"the run in {folder}"
    from anyshot import presets

    images = settings_with(Settings(), {"images": chosen.get("images")}).images
    name = preset or presets.usual(images)
    try:
        base = presets.preset(name, chosen.get("method") or "taml")
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--preset") from error
    return settings_with(base, chosen), base, f"the preset {name}" + ("" if preset else " (no --preset was given)")


def one_by_one(settings: Settings, base: Settings) -> list[str]:
    """A line for each setting; "* way   3   (not 5)" for one that is not the base's."""
    lines = []
    for panel, group in compared(settings, base).items():
        lines.append(panel)
        for name, value, before in group:
            changed = value != before
            lines.append(f"{'*' if changed else ' '} {name:<18}{value}" + (f"   (not {before})" if changed else ""))
    return lines


def in_brief(settings: Settings, base: Settings) -> list[str]:
    """A few lines; "task: *way 3, shots any-shot:1-50" has a star for what is not the base's."""
    lines = []
    for panel, group in compared(settings, base).items():
        words = ", ".join(f"{'*' if value != before else ''}{name} {value}" for name, value, before in group)
        lines += textwrap.wrap(f"{panel}: {words}", 110, initial_indent="  ", subsequent_indent="    ",
                               break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return lines


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
