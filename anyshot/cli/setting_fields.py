"""The settings that have an option on the command line, and the conversion of their values."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from anyshot.core.builtin_options import BUILTIN_OPTIONS
from anyshot.core.options import nested_dataclass, type_hints
from anyshot.core.registry import METHODS
from anyshot.core.settings import MethodSettings, Settings

RENAMED = {("method", "name"): "method"}  # field -> option; all others keep their names
FLAGS = {"body_from": "--from"}  # "from" is a keyword of Python
#: The settings of `anyshot train`.
EVERYTHING = ("images", "ood", "mixing", "task", "method", "train", "pretrain.epochs")


class Setting(NamedTuple):
    """A field of a settings class, or an option of a method (``part`` is "options")."""

    part: str  #: the field of Settings that it is in; "" for a field of Settings itself
    field: dataclasses.Field[Any]
    hint: Any  #: its type

    @property
    def name(self) -> str:
        """The name of the command's parameter."""
        return RENAMED.get((self.part, self.field.name), self.field.name)

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return FLAGS.get(self.name) or f"--{self.name.replace('_', '-')}"

    def value_in(self, settings: Settings) -> Any:
        """Its value in some settings; None if it is not there."""
        if self.part == "options":
            default = default_value(self.field)
            return settings.method.options.get(self.field.name, default)
        owner = getattr(settings, self.part) if self.part else settings
        return None if owner is None else getattr(owner, self.field.name)


# ------------------------------------------------------------------------------- which settings
def select_settings(selected: tuple[str, ...]) -> Iterator[Setting]:
    """The settings that are selected, with those of the built-in methods' options."""
    hints = type_hints(Settings)
    for text in selected:
        part, _, name = text.partition(".")
        cls = nested_dataclass(hints[part])
        settings = list(_settings_of(part, cls)) if cls else list(_settings_of("", Settings))
        if part == "method":
            settings += _builtin_options()
        only = name if cls else text
        yield from (setting for setting in settings if not only or setting.field.name == only)


def _settings_of(part: str, cls: type) -> Iterator[Setting]:
    hints = type_hints(cls)
    for field in dataclasses.fields(cls):
        if part == "options" or "choices" in field.metadata:  # others are parts, not options
            yield Setting(part, field, hints[field.name])


def _builtin_options() -> list[Setting]:
    """The options of all built-in methods; an option that several have comes once."""
    settings = {
        setting.name: setting
        for options in BUILTIN_OPTIONS.values()
        for setting in _settings_of("options", options)
    }
    return list(settings.values())


def new_options(method: str) -> list[Setting]:
    """The options of a method of your own that it does not inherit from a built-in one."""
    if METHODS.is_builtin(method):
        return []
    from anyshot.methods.create import method_class

    cls = method_class(MethodSettings(name=method)).Options
    inherited = {
        field.name
        for options in BUILTIN_OPTIONS.values()
        if issubclass(cls, options)
        for field in dataclasses.fields(options)
    }
    settings = _settings_of("options", cls)
    return [setting for setting in settings if setting.name not in inherited]


# ------------------------------------------------------------------------------- values
def default_value(field: dataclasses.Field[Any]) -> Any:
    """The default of a field; None if it has none."""
    return None if field.default is dataclasses.MISSING else field.default


def single_type(hint: Any) -> Any:
    """The type in ``T | None``."""
    if isinstance(hint, types.UnionType):
        return next(a for a in typing.get_args(hint) if a is not type(None))
    return hint


def value_text(value: Any) -> str:
    """A value as it is written on the command line; empty for None."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)


def parse_value(value: Any, setting: Setting) -> Any:
    """The value of an option as the field's type."""
    if typing.get_origin(setting.hint) is not tuple:
        return single_type(setting.hint)(value)
    kind = typing.get_args(setting.hint)[0]
    try:
        return tuple(kind(word) for word in split_commas(value, setting.flag[2:]))
    except ValueError as error:
        raise typer.BadParameter(
            f"{value!r} should be numbers separated by commas.", param_hint=setting.flag
        ) from error


def split_commas(text: str, name: str) -> list[str]:
    """The words of an option that takes several, separated by commas; "none" is none of them."""
    words = [word.strip() for word in text.split(",")] if text != "none" else []
    if not all(words):
        raise typer.BadParameter(
            "A value is missing before, after or between the commas.", param_hint=f"--{name}"
        )
    return words
