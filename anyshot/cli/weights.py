"""anyshot weights: what meta-training left behind, and how to make it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.help import PlainHelp

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=False,
    invoke_without_command=True,
    help="Weights that come with anyshot: list, read, make.",
)


@app.callback()
def weights(context: typer.Context) -> None:
    """List the weights that come with anyshot."""
    if context.invoked_subcommand:
        return
    from rich.console import Console
    from rich.table import Table

    from anyshot.runs import pretrained

    table = Table("name", "what", "learned from", "kB")
    for name in pretrained.pretrained_names():
        config = pretrained.pretrained_config(name)
        settings = config.get("settings")
        what = (
            f"{settings['method']['name']}, {settings['method']['body']}"
            if settings
            else config["backbone"]
        )
        sets = settings["images"] if settings else config["sets"]
        size = (
            sum(file.stat().st_size for file in (pretrained.HOME / name).glob("*.safetensors"))
            / 1000
        )
        table.add_row(name, what, ", ".join(sets), f"{size:.0f}")
    Console().print(table)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Of the list.")]) -> None:
    """Print the model card: what it learned from, what was left out, results and limits."""
    from anyshot.core.errors import AnyshotError
    from anyshot.core.options import suggestion
    from anyshot.runs import pretrained

    if name not in pretrained.pretrained_names():
        raise AnyshotError(
            f"There are no weights {name!r}{suggestion(name, pretrained.pretrained_names())}"
        )
    print((pretrained.HOME / name / "README.md").read_text(encoding="utf-8"))


@app.command()
def pack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")],
) -> None:
    """Keep what is needed to use a run: settings, what it learned from, chosen parameters; no log, no checkpoints.

    Example: anyshot weights pack runs/taml anyshot/runs/weights/mine
    """
    from anyshot.runs.run import Run

    Run(run).export(folder)


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")],
    backbone: Annotated[
        str, typer.Option(metavar="NAME", help="Whose features to learn on.")
    ] = "efficientnet-lite0",
) -> None:
    """Meta-train the learner on the features of all data sets; some minutes once the features are there.

    Needs the data sets prepared (anyshot data prepare). Example: anyshot weights make anyshot/runs/weights/photos-lite0
    """
    from anyshot.classifier.weights import make_weights

    make_weights(folder, backbone)
