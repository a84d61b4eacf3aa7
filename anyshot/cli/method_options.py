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
            method = None if extra.get("resilient_parsing") else _find_method(args, self.params)
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


def _find_method(args: Sequence[str], parameters: Sequence[Any]) -> str | None:
    """Find the method that the arguments name: by --method, or by the folder of a run to train.

    Training a run executes its code, so this may, too. The values of other options, such as
    --from, may be folders of runs as well; their code is not executed.
    """
    named = [a.partition("=")[2] for a in args if a.startswith("--method=")]
    named += [value for flag, value in itertools.pairwise(args) if flag == "--method"]
    if named:
        return named[-1]
    with_value = {
        flag
        for parameter in parameters
        if not getattr(parameter, "is_flag", True)
        for flag in parameter.opts
    }
    for previous, argument in itertools.pairwise(["", *args]):
        if previous not in with_value and (Path(argument) / "run.json").is_file():
            from anyshot.runs.run import Run

            return Run(argument, trust_code=True).resolve_settings().method.name
    return None
