"""anyshot train: learn to learn."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyshot.cli.settings_options import (
    EVERYTHING,
    Address,
    Device,
    Jobs,
    Json,
    On,
    Workers,
    options,
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
    seeds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Train N runs, RUN/seed-0 and so on, from --seed upwards."
        ),
    ] = 1,
    jobs: Jobs = None,
    on: On = "local",
    address: Address = None,
    **chosen: Any,
) -> None:
    """Meta-train a method, or go on with a run that was interrupted.

    Settings come from the preset, then from the options below; `--show` prints them. A run that exists goes on from its
    last checkpoint with its own settings, to the same parameters as if it had never stopped; `--iterations` may make it
    longer. torchrun --nproc-per-node N -m anyshot train … trains one run on several processes or machines; --seeds
    trains several runs.

    Example: anyshot train runs/taml --preset glyphs --iterations 500
    """
    from anyshot.training import recipe as recipes
    from anyshot.training.meta_training import train

    if recipe not in recipes.RECIPES:
        raise typer.BadParameter(
            f"{recipe!r} is not one of {', '.join(recipes.RECIPES)}.", param_hint="--recipe"
        )
    ours = recipe == "anyshot" and preset in recipes.PAPERS
    stages = recipes.train_by_recipe if ours else train
    how: dict[str, Any] = {"workers": workers, "tensorboard": tensorboard, "device": device}

    def start(settings: Settings, folder: Path, command: str) -> list[Run]:
        from anyshot.core.parallel.device import choose_device
        from anyshot.experiments.seeds import train_seeds

        if seeds > 1:
            grid: dict[str, Any] = {"on": on, "jobs": jobs, "address": address}
            return train_seeds(settings, folder, seeds, stages, **grid, command=command, **how)
        with process_group(choose_device(device)):
            return [stages(settings, folder, command=command, **how)]

    prepared = recipes.recipe if ours else lambda settings: settings
    runs = run_training_command(
        "train", start, folder, preset, chosen, json, show, prepared=prepared
    )
    if runs and seeds > 1:
        _show_seeds(runs, json)
    elif runs:
        _show(runs[0], json)


def _show_seeds(runs: Sequence[Run], json: Path | None) -> None:
    """What each run's validations chose, and what can be done next."""
    from anyshot.evaluation.report.result_files import write_results

    chosen = {run.folder.name: run.best().state for run in runs}
    for name, state in chosen.items():
        how_good = (
            "" if state["selection"] is None else f", validation {100 * state['selection']:.1f}"
        )
        print(f"{name}: iteration {state['iteration']}{how_good}")
    places = " ".join(shlex.quote(str(run.folder)) for run in runs)
    print(f"Next: anyshot test {places} --pool-seeds")
    if json:
        settings = runs[0].settings
        write_results(
            json,
            chosen,
            settings=settings.as_dict(),
            seeds=[run.settings.train.seed for run in runs],
        )


def _show(run: Run, json: Path | None) -> None:
    """The validations, which of them was chosen, and what can be done next."""
    from anyshot.evaluation.report.tables import print_tables

    validations, best = list(run.records("validation")), run.best().state
    if validations:
        title = f"{display_name(run.settings.method.name)}: validation accuracy, %"
        print_tables(accuracy_table(title, "iteration", validations, best["iteration"]))
    else:
        print(
            "There are no classes to validate on, so the parameters of the last iteration are the run's."
        )
    print_next_step(run, "test", {"validations": validations, "chosen": best}, json)
