"""The command `anyshot`. Every sub-command has its own file, which parses, calls and prints."""

from __future__ import annotations

import itertools
import sys
import traceback
from typing import Annotated

import typer

from anyshot.cli import (
    bench,
    cache,
    check,
    classify,
    data,
    demo,
    evaluate,
    export,
    inspect,
    label,
    pretrain,
    report,
    reproduce,
    serve,
    test,
    train,
    weights,
)
from anyshot.cli.help import PlainHelp
from anyshot.cli.interrupt import EXIT_CODE as INTERRUPTED
from anyshot.cli.interrupt import raise_on_interrupt
from anyshot.cli.terminal import configure_output, describe_os_error, flush, print_error
from anyshot.cli.user_method_options import command_with_method_options
from anyshot.core.code_loading import user_code_location
from anyshot.core.errors import AnyshotError, is_out_of_memory
from anyshot.core.parallel import ranks
from anyshot.core.parallel.threads import tune_process
from anyshot.core.version import VERSION

TORCHRUN_COMMANDS = ("train", "pretrain", "test")  #: commands that torchrun may start
OUT_OF_MEMORY = (
    "There is not enough memory. Use smaller tasks or images (--way, --shots, --query, --side), "
    "a smaller --meta-batch, or --workers 1."
)

app = typer.Typer(
    cls=PlainHelp,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    pretty_exceptions_enable=False,  # main() prints errors
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: anyshot serve (your photos), anyshot demo (research). "
    "Every command has its own --help.",
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"anyshot {VERSION}")
        raise typer.Exit


@app.callback()
def anyshot(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error; may be anywhere in the command."
        ),
    ] = False,
) -> None:
    """Learn image classifiers from uneven, scarce and unusual data.

    Some classes have one image and others fifty; some tasks resemble the training data and others
    do not. Sort your own photos after a few examples of each class, or train and compare
    meta-learning methods such as Bayesian TAML.
    """


PHOTOS, RESEARCH, STORAGE = "Your own photos", "Research on meta-learning", "Stored files"
app.command(rich_help_panel=PHOTOS)(serve.serve)
app.command(rich_help_panel=PHOTOS)(classify.classify)
app.command(rich_help_panel=PHOTOS)(evaluate.evaluate)
app.command(rich_help_panel=PHOTOS)(check.check)
app.command(rich_help_panel=PHOTOS)(label.label)
app.command(rich_help_panel=PHOTOS)(export.export)
app.command(rich_help_panel=RESEARCH)(demo.demo)
app.command(rich_help_panel=RESEARCH)(pretrain.pretrain)
app.command(cls=command_with_method_options(train.train), rich_help_panel=RESEARCH)(train.train)
app.command(rich_help_panel=RESEARCH)(test.test)
app.command(rich_help_panel=RESEARCH)(inspect.inspect)
app.command(rich_help_panel=RESEARCH)(report.report)
app.command(rich_help_panel=RESEARCH)(reproduce.reproduce)
app.command(rich_help_panel=RESEARCH)(bench.bench)
app.add_typer(weights.app, name="weights", rich_help_panel=STORAGE)
app.add_typer(data.app, name="data", rich_help_panel=STORAGE)
app.add_typer(cache.app, name="cache", rich_help_panel=STORAGE)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end with SystemExit.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
    """
    tune_process()  # here and not on import: a program that imports anyshot keeps its settings
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    with configure_output():
        try:
            with raise_on_interrupt():
                _run(arguments)
        except KeyboardInterrupt as interrupt:
            if ranks.claims_error_message():
                print_error(" ".join(["Interrupted.", *map(str, interrupt.args)]))
            raise SystemExit(INTERRUPTED) from interrupt
        except Exception as error:
            if debug:
                traceback.print_exc()
            if ranks.claims_error_message():
                print_error(_describe(error))
            raise SystemExit(1) from error


def _run(arguments: list[str]) -> None:
    _check(arguments)
    try:
        with ranks.only_rank_zero_prints():
            app(arguments, prog_name="anyshot")
    except SystemExit as end:  # Typer ends every command this way
        if end.code == INTERRUPTED:
            raise _find_interrupt(end) from end
        if end.code and ranks.rank() and ranks.claims_error_message():
            print_error(
                f"Rank {ranks.rank()} rejected the arguments; run the command there without "
                "torchrun to see the error."
            )
        raise
    finally:
        flush()


def _check(arguments: list[str]) -> None:
    command = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if ranks.launched_by_torchrun() and command and command not in TORCHRUN_COMMANDS:
        raise AnyshotError(
            f"torchrun is for {', '.join(TORCHRUN_COMMANDS)}; start anyshot {command} without it."
        )
    for before, argument in itertools.pairwise(["anyshot", *arguments]):
        if not argument.strip() or (argument.startswith("--") and argument.endswith("=")):
            shown = argument if argument.strip() else f"{before} ''"
            print_error(f"An argument is empty ({shown}); give a value or leave it out.")
            raise SystemExit(2)


def _find_interrupt(end: BaseException) -> KeyboardInterrupt:
    """Return the KeyboardInterrupt behind an exit, with the message that the command gave it."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause or KeyboardInterrupt()


def _describe(error: Exception) -> str:
    """Return an error as one sentence: what failed, and whether it is a bug of anyshot."""
    if isinstance(error, AnyshotError):
        return str(error)
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    if isinstance(error, OSError):
        return describe_os_error(error)
    location = user_code_location(error)
    origin = f"In {location}" if location else "This is a bug in anyshot"
    return f"{origin}: {type(error).__name__}: {error} (--debug shows where)."
