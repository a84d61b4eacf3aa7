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

    from anyshot.weights import HOME, names, open_weights

    table = Table("name", "for features of", "meta-trained on", "kB")
    for name in names():
        config = open_weights(name).config
        size = (HOME / name / "learner.safetensors").stat().st_size / 1000
        table.add_row(name, config["backbone"], ", ".join(config["sets"]), f"{size:.0f}")
    Console().print(table)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Of the list.")]) -> None:
    """Print the model card: what it learned from, what was left out, results and limits."""
    from anyshot.weights import HOME, open_weights

    open_weights(name)
    print((HOME / name / "README.md").read_text(encoding="utf-8"))


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")],
    backbone: Annotated[str, typer.Option(metavar="NAME", help="Whose features to learn on.")] = "efficientnet-lite0",
) -> None:
    """Meta-train the learner on the features of all data sets; some minutes once the features are there.

    Needs the data sets prepared (anyshot data prepare). Example: anyshot weights make anyshot/weights/photos-lite0
    """
    from anyshot.weights import make_weights

    make_weights(folder, backbone)
