"""The command `anyshot`: each sub-command in its own file, thin: parse, call, print."""

from __future__ import annotations

import itertools
import sys
import traceback
from typing import Annotated

import typer

from anyshot.cli import (
    bench,
    classify,
    data,
    demo,
    evaluate,
    inspect,
    label,
    report,
    reproduce,
    serve,
    test,
    train,
    weights,
)
from anyshot.cli import pretrain as warm
from anyshot.cli.help import PlainHelp
from anyshot.cli.method_options import find_method_options
from anyshot.cli.terminal import flush, refusal, say, terminal
from anyshot.core.code_loading import user_code_location
from anyshot.core.errors import AnyshotError
from anyshot.core.parallel import ranks
from anyshot.core.parallel.threads import tune_process
from anyshot.core.version import VERSION

TORCHRUN_COMMANDS = ("train", "pretrain", "test")  #: commands that torchrun may start

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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure; works anywhere.")
    ] = False,
) -> None:
    """Learn image classifiers from uneven, scarce and unusual data.

    Some classes have one image and others fifty; some tasks are like those of the past and others are not. Bayesian
    TAML learns from many small tasks how to balance classes, tasks and what it already knows.
    """


app.command()(demo.demo)
app.command()(warm.pretrain)
app.command(cls=find_method_options(train.train))(train.train)
app.command()(test.test)
app.command()(inspect.inspect)
app.command()(report.report)
app.command()(reproduce.reproduce)
app.command()(bench.bench)
app.command()(classify.classify)
app.command()(evaluate.evaluate)
app.command()(label.label)
app.command()(serve.serve)
app.add_typer(weights.app, name="weights")
app.add_typer(data.app, name="data")


def main(arguments: list[str] | None = None) -> None:
    """Run the command: exit code 0 on success, 1 on failure, 2 on wrong usage, 130 when interrupted."""
    tune_process()  # the process is ours; a host program that imports anyshot keeps its own settings
    arguments = sys.argv[1:] if arguments is None else arguments
    with terminal():
        try:
            _run(arguments)
        except KeyboardInterrupt as interrupt:
            if ranks.claims_error_message():
                say(" ".join(["Interrupted.", *map(str, interrupt.args)]))
            raise SystemExit(130) from interrupt


def _run(arguments: list[str]) -> None:
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _check(arguments)
        try:
            with ranks.only_rank_zero_prints():
                app(arguments, prog_name="anyshot")
        finally:
            flush()
    except SystemExit as end:  # Typer ends this way, with 130 for Ctrl-C
        if end.code == 130:
            raise _interrupt(end) from end
        if end.code and ranks.rank() and ranks.claims_error_message():
            say(
                f"Rank {ranks.rank()} refuses these arguments; start them there without torchrun to see why."
            )
        raise
    except AnyshotError as error:
        _fail(str(error), debug)
    except OSError as error:
        _fail(refusal(error), debug)
    except MemoryError:
        _fail("There is not enough memory; --workers 1 and smaller tasks take less.", debug)
    except Exception as error:
        where = user_code_location(error)
        whose = f"In {where}" if where else "This is a bug in anyshot"
        _fail(f"{whose}: {type(error).__name__}: {error} (--debug shows where).", debug)


def _check(arguments: list[str]) -> None:
    if (
        ranks.launched_by_torchrun()
        and arguments
        and not arguments[0].startswith("-")
        and arguments[0] not in TORCHRUN_COMMANDS
    ):
        raise AnyshotError(
            f"torchrun is for {', '.join(TORCHRUN_COMMANDS)}; start anyshot {arguments[0]} without it."
        )
    for before, argument in itertools.pairwise(["anyshot", *arguments]):
        if not argument.strip() or (argument.startswith("--") and argument.endswith("=")):
            place = argument if argument.strip() else f"{before} ''"
            say(f"An argument is empty ({place}); give a value or leave it out.")
            raise SystemExit(2)


def _interrupt(end: BaseException) -> KeyboardInterrupt:
    """The interrupt behind an exit, with whatever the command had to say about it."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause or KeyboardInterrupt()


def _fail(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    if ranks.claims_error_message():
        say(sentence)
    raise SystemExit(1)
