"""anyshot weights: the weights that come with anyshot, and how to make such weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.help import PlainHelp

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=False,
    invoke_without_command=True,
    help="Weights that come with anyshot: list, show, pack, make.",
)


@app.callback()
def weights(context: typer.Context) -> None:
    """List the weights that come with anyshot."""
    if context.invoked_subcommand is None:
        list_weights()


@app.command("list")
def list_weights() -> None:
    """List the weights that come with anyshot."""
    from rich.table import Table

    from anyshot.evaluation.report.tables import print_tables
    from anyshot.runs import pretrained

    table = Table("name", "what", "trained on", "kB")
    for name in pretrained.pretrained_names():
        config = pretrained.pretrained_config(name)
        settings = config.get("settings")
        if settings:
            what = f"{settings['method']['name']}, {settings['method']['body']}"
            if members := config.get("members"):
                what += f", {1 + len(members)} networks"
            sets = settings["images"]
        else:
            what = f"classifier on {config['backbone']}"
            sets = config["sets"]
        files = (pretrained.HOME / name).rglob("*.safetensors")
        size = sum(file.stat().st_size for file in files) / 1000
        table.add_row(name, what, ", ".join(sets), f"{size:.0f}")
    print_tables(table)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the weights.")]) -> None:
    """Print the model card: training data, held-out data, results and limits."""
    from anyshot.core.errors import RunError
    from anyshot.core.options import suggestion
    from anyshot.runs import pretrained

    if name not in pretrained.pretrained_names():
        raise RunError(
            f"There are no weights {name!r}{suggestion(name, pretrained.pretrained_names())}"
        )
    print((pretrained.HOME / name / "README.md").read_text(encoding="utf-8"))


@app.command()
def pack(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Folder of a run; several become an ensemble."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the weights.")],
) -> None:
    """Copy what is needed to use a run: settings, image sets, parameters; no log, no checkpoints.

    Several runs become an ensemble, which averages their probabilities and is used like a run.

    Example: anyshot weights pack runs/taml anyshot/runs/weights/mine
    """
    from anyshot.runs.packing import pack as pack_runs
    from anyshot.runs.run import Run

    pack_runs([Run(run) for run in runs], folder)


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write the weights.")],
    backbone: Annotated[
        str, typer.Option(metavar="NAME", help="Backbone whose features to train on.")
    ] = "efficientnet-lite0",
) -> None:
    """Meta-train the classifier's weights on features of all data sets (minutes, plus features).

    The data sets must be prepared (anyshot data prepare).

    Example: anyshot weights make anyshot/runs/weights/photos-lite0
    """
    from anyshot.classifier.weights import make_weights

    make_weights(folder, backbone)
