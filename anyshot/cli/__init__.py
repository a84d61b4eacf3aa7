"""The command `anyshot`: each sub-command in its own file, thin: parse, call, print."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from anyshot.cli import bench, data, demo, inspect, test, train
from anyshot.cli.help import PlainHelp
from anyshot.errors import AnyshotError
from anyshot.parallel import tune_process
from anyshot.version import VERSION

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # lets paragraphs flow
    pretty_exceptions_enable=False,  # main() has its own way of showing them
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: anyshot demo. Every command has its own --help.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"anyshot {VERSION}")
        raise typer.Exit


@app.callback()
def anyshot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure; works anywhere.")] = False,
) -> None:
    """Learn image classifiers from uneven, scarce and unusual data.

    Some classes have one image and others fifty; some tasks are like those of the past and others are not. Bayesian
    TAML learns from many small tasks how to balance classes, tasks and what it already knows.
    """


app.command()(demo.demo)
app.command()(train.train)
app.command()(test.test)
app.command()(inspect.inspect)
app.command()(bench.bench)
app.add_typer(data.app, name="data")


def main(arguments: list[str] | None = None) -> None:
    """Run the command: exit code 0 on success, 1 on failure, 2 on wrong usage, 130 when interrupted."""
    tune_process()  # the process is ours; a host program that imports anyshot keeps its own settings
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"], prog_name="anyshot")
    except SystemExit as end:  # Typer ends this way, with 130 for Ctrl-C
        if end.code == 130:
            _say("Interrupted. A run that was training goes on from its last checkpoint when started again.")
        raise
    except AnyshotError as error:
        _fail(str(error), debug)
    except Exception as error:
        _fail(f"This is a bug in anyshot: {type(error).__name__}: {error} (--debug shows where).", debug)


def _fail(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    _say(sentence)
    raise SystemExit(1)


def _say(sentence: str) -> None:
    print(f"anyshot: {sentence}", file=sys.stderr)
