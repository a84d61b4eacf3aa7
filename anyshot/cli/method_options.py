"""Options of a method that is not one of anyshot's own: they are known only once the arguments have named it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from anyshot.cli.help import hide_type
from anyshot.cli.settings_options import add_method_options
from anyshot.core.errors import AnyshotError
from anyshot.core.registry import METHODS


def find_method_options(function: Callable[..., None]) -> type[TyperCommand]:
    """The kind of command that also takes the options of the method that its arguments name."""

    class Command(TyperCommand):
        def make_context(
            self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
        ) -> Any:
            method = None if extra.get("resilient_parsing") else _method_in(args)
            if method is None or METHODS.is_builtin(method):
                return super().make_context(info_name, args, parent, **extra)
            app = typer.Typer(rich_markup_mode=self.rich_markup_mode)
            try:
                app.command()(add_method_options(function, method))
            except AnyshotError as error:
                raise typer.BadParameter(str(error), param_hint="--method") from error
            command = typer.main.get_command(app)
            for parameter in command.params:
                hide_type(parameter)
            return command.make_context(info_name, args, parent, **extra)

    return Command


def _method_in(args: Sequence[str]) -> str | None:
    """The method that the arguments speak of: by its option, or by the folder of a run that exists."""
    named = [a.partition("=")[2] for a in args if a.startswith("--method=")]
    named += [value for flag, value in itertools.pairwise(args) if flag == "--method"]
    if named:
        return named[-1]
    for argument in args:
        if (Path(argument) / "run.json").is_file():
            from anyshot.runs.run import Run

            return Run(argument).settings.method.name
    return None
