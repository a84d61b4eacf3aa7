"""What `train` and `pretrain` share: options, settings and their printing, Ctrl-C."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from anyshot.cli.setting_fields import EVERYTHING
from anyshot.cli.settings_options import settings_diff, settings_with
from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import rank
from anyshot.core.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from anyshot.runs.run import Run

T = TypeVar("T")


def _preset_names() -> list[str]:
    from anyshot.training.presets import PRESETS

    return list(PRESETS)


Folder = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", help="Folder of the run: settings, log and checkpoints."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Settings to start from. anyshot's recipe (pre-training, then 200 iterations): "
        "cifar-fs, miniimagenet, multi. The paper's protocol: cifar-fs-paper, miniimagenet-paper, "
        "multi-paper. The usual few-shot protocol: cifar-fs-1shot, cifar-fs-5shot, "
        "miniimagenet-1shot, miniimagenet-5shot. Minutes: glyphs (default for the embedded "
        "glyphs), pictures (default for other images).",
        autocompletion=_preset_names,
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Print all settings and exit.")]
Tensorboard = Annotated[
    bool | None,
    typer.Option(
        "--tensorboard/--no-tensorboard",
        help="Write TensorBoard event files. Default: if TensorBoard is installed.",
        show_default=False,
    ),
]


def run_training_command(
    command: str,
    start: Callable[..., T],
    folder: Path | None,
    preset: str | None,
    chosen: Mapping[str, Any],
    json: Path | None,
    show: bool,
    selected: tuple[str, ...] = EVERYTHING,
    prepared: Callable[[Settings], Settings] = lambda settings: settings,
) -> T | None:
    """Print the settings, then train or continue the run in a folder.

    ``selected`` are the settings that the command has options for; ``prepared`` converts the
    settings of a preset. Returns what ``start`` returned; None with ``show`` and on ranks other
    than zero.
    """
    if folder is None and not show:
        raise typer.BadParameter("Missing argument 'RUN': the folder of the run.")
    base, source = _base_settings(folder, preset, chosen, prepared)
    settings = settings_with(base, chosen, selected)
    if show:
        typer.echo("\n".join([f"Settings from {source}:", *all_settings(settings, base, selected)]))
        return None
    assert folder is not None
    from anyshot.core.files import check_writable

    if json:
        check_writable(json)
    typer.echo(
        "\n".join([f"Settings from {source}:", *settings_summary(settings, base, selected)]),
        err=True,
    )
    with _explain_interrupt(command, folder):
        result = start(settings, folder, command=shlex.join(["anyshot", *sys.argv[1:]]))
    return None if rank() else result


@contextmanager
def _explain_interrupt(command: str, folder: Path) -> Iterator[None]:
    """After Ctrl-C, print the command that continues the run."""
    try:
        yield
    except KeyboardInterrupt as error:
        from anyshot.runs.run import Run

        if Run.find_started(folder) is None:
            raise
        again = f"anyshot {command} {shlex.quote(str(folder))}"
        raise KeyboardInterrupt(f"To continue from the last checkpoint: {again}") from error


def _base_settings(
    folder: Path | None,
    preset: str | None,
    chosen: Mapping[str, Any],
    prepared: Callable[[Settings], Settings],
) -> tuple[Settings, str]:
    """The settings before any option is applied, and their source, as words to print."""
    if preset is None and folder is not None:
        from anyshot.runs.run import Run

        if run := Run.find_started(folder):
            return run.settings, f"the run in {folder}"
    from anyshot.training import presets

    images = settings_with(Settings(), {"images": chosen.get("images")}).images
    name = preset or presets.default_preset(images)
    try:
        base = presets.preset(name, chosen.get("method") or "taml")
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--preset") from error
    return prepared(base), f"the preset {name}" + ("" if preset else " (no --preset was given)")


def all_settings(
    settings: Settings, base: Settings, selected: tuple[str, ...] = EVERYTHING
) -> list[str]:
    """A line for each setting; "* way   3   (not 5)" for one that differs from ``base``."""
    lines = []
    for panel, group in settings_diff(settings, base, selected).items():
        lines.append(panel)
        for name, value, before in group:
            changed = value != before
            lines.append(
                f"{'*' if changed else ' '} {name:<18}{value}"
                + (f"   (not {before})" if changed else "")
            )
    return lines


def settings_summary(
    settings: Settings, base: Settings, selected: tuple[str, ...] = EVERYTHING
) -> list[str]:
    """A few lines such as "task: *way 3, shots 5"; a star marks what differs from ``base``."""
    wrapper = textwrap.TextWrapper(
        width=110,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = []
    for panel, group in settings_diff(settings, base, selected).items():
        words = ", ".join(
            f"{'*' if value != before else ''}{name} {value}" for name, value, before in group
        )
        lines += wrapper.wrap(f"{panel}: {words}")
    return lines


def accuracy_table(
    title: str, counter: str, records: Sequence[dict[str, Any]], selected: int | None = None
) -> Table:
    """A row for each validation, in percent; ``counter`` is "iteration" or "epoch"."""
    from rich import box
    from rich.table import Table

    sets = [name for name in records[-1] if name not in {"kind", counter, "selection"}]
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for column in (counter, *sets, ""):
        table.add_column(column, justify="right")
    for record in records:
        mark = "selected" if record[counter] == selected else ""
        table.add_row(str(record[counter]), *(f"{100 * record[name]:.1f}" for name in sets), mark)
    return table


def print_next_step(run: Run, command: str, results: Mapping[str, Any], json: Path | None) -> None:
    """Print the run's folder and the next command, and write the results to a file, if given."""
    from anyshot.evaluation.report.result_files import write_results

    folder = shlex.quote(str(run.folder))
    print(f"The run is in {folder}. Next: anyshot {command} {folder}")
    if json:
        write_results(
            json,
            results,
            run=run.folder,
            settings=run.settings.as_dict(),
            seeds=[run.settings.train.seed],
        )
