"""Help without Python's types: Typer writes <bool> behind a switch and <list[Path]> behind an argument."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class PlainHelp(TyperGroup):
    """A group of commands whose own help, and that of its commands, shows types only where a value is asked for."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The group's options."""
        return [plain(parameter) for parameter in super().get_params(ctx)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command of the group."""
        command = super().get_command(ctx, name)
        for parameter in command.get_params(ctx) if command else ():
            plain(parameter)
        return command


def plain(parameter: Any) -> Any:
    """An argument has its name and a switch takes no value: neither needs a type."""
    if parameter.param_type_name == "argument" or parameter.is_flag:
        parameter.display_type_rich = lambda ctx: None
    return parameter
