"""Options of your own method: they are known only when the arguments have named the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from anyshot.cli.help import hide_type
from anyshot.cli.settings_options import add_method_options
from anyshot.core.errors import AnyshotError
from anyshot.core.registry import METHODS


def command_with_method_options(function: Callable[..., None]) -> type[TyperCommand]:
    """A class of command that also has the options of the method that its arguments name."""

    class Command(TyperCommand):
        def make_context(
            self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
        ) -> Any:
            if extra.get("resilient_parsing"):  # shell completion
                return super().make_context(info_name, args, parent, **extra)
            # A first pass by the same parser, which skips the options that it does not know yet.
            lenient = {
                "resilient_parsing": True,
                "ignore_unknown_options": True,
                "allow_extra_args": True,
            }
            probe = super().make_context(info_name, list(args), parent, **{**extra, **lenient})
            arguments = [probe.params.get("folder"), *probe.args]
            method = probe.params.get("method") or _method_of_run(arguments)
            if method is None or METHODS.is_builtin(method):
                return super().make_context(info_name, args, parent, **extra)
            command = _with_options(function, method, self.rich_markup_mode)
            return command.make_context(info_name, args, parent, **extra)

    return Command


def _with_options(function: Callable[..., None], method: str, markup: Any) -> Any:
    """The command with the options of a method."""
    app = typer.Typer(rich_markup_mode=markup)
    try:
        app.command()(add_method_options(function, method))
    except AnyshotError as error:
        raise typer.BadParameter(str(error), param_hint="--method") from error
    command = typer.main.get_command(app)
    for parameter in command.params:
        hide_type(parameter)
    return command


def _method_of_run(arguments: Sequence[object]) -> str | None:
    """The method of the run to train, if it exists; training a run executes its code."""
    for argument in arguments:
        if argument is not None and (Path(str(argument)) / "run.json").is_file():
            from anyshot.runs.run import Run

            return Run(str(argument), trust_code=True).resolve_settings().method.name
    return None
