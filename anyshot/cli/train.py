"""anyshot train: learn to learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.options import EVERYTHING, Device, Json, Workers, options
from anyshot.cli.running import Folder, Preset, Show, Tensorboard, accuracy_table, carried_out, say_next
from anyshot.lists import short

if TYPE_CHECKING:
    from anyshot.runs import Run

Recipe = Annotated[
    str,
    typer.Option(
        metavar="anyshot|paper",
        help="How cifar-fs, miniimagenet and multi are trained: from a warm start (in RUN/warm unless --from names "
        "a body), or from chance as in the paper.",
    ),
]


@options(*EVERYTHING, default="")
def train(
    folder: Folder = None,
    preset: Preset = None,
    recipe: Recipe = "anyshot",
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

    from anyshot import recipe as recipes
    from anyshot.training import train

    if recipe not in recipes.RECIPES:
        raise typer.BadParameter(f"{recipe!r} is not one of {', '.join(recipes.RECIPES)}.", param_hint="--recipe")
    ours = recipe == "anyshot" and preset in recipes.PAPERS
    stages = recipes.train_by_recipe if ours else train

    def start(*arguments: Any, **named: Any) -> Run:
        return stages(*arguments, **named, workers=workers, tensorboard=tensorboard, device=device)

    prepared = recipes.recipe if ours else lambda settings: settings
    if run := carried_out("train", start, folder, preset, chosen, json, show, prepared=prepared):
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
