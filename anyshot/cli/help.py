"""Help without Python types, which Typer prints after switches and arguments."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class PlainHelp(TyperGroup):
    """A command group whose help shows types only for options that take a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group."""
        return [hide_type(parameter) for parameter in super().get_params(ctx)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return a command of the group."""
        command = super().get_command(ctx, name)
        for parameter in command.get_params(ctx) if command else ():
            hide_type(parameter)
        return command


def hide_type(parameter: Any) -> Any:
    """Hide the type of an argument or switch, which adds nothing to its name."""
    if parameter.param_type_name == "argument" or parameter.is_flag:
        parameter.display_type_rich = lambda ctx: None
    return parameter
