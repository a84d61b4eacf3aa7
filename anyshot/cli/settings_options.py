"""Options made from the settings' dataclasses, so that names, defaults, choices and help stand in one place."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anyshot.core.errors import AnyshotError, CodeError
from anyshot.core.options import nested_dataclass
from anyshot.core.registry import METHODS, Registry, display_name
from anyshot.core.settings import MethodSettings, Settings

Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the results, with their origin, to this file."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Tasks at once; changes no result. Default: one for each core."
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option(
        metavar="auto|cpu|cuda|mps",
        help="Where to compute; auto: on a GPU with CUDA, or else on the CPU.",
    ),
]
On = Annotated[
    Literal["local", "ray"],
    typer.Option(
        metavar="local|ray",
        help="Where several runs are made: on this machine, or on a Ray cluster.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Runs at once, which share the cores. Default: one here, one for each processor of a cluster.",
        show_default=False,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Of the Ray cluster, or auto. Default: one on this machine, for this grid.",
    ),
]
METAVARS = {
    int: "N",
    int | None: "N",
    float: "X",
    float | None: "X",
    str: "TEXT",
    str | None: "RUN",
}
RENAMED = {("method", "name"): "method"}  # field -> option; all others keep their names
FLAGS = {"body_from": "--from"}  # where a flag is a word that Python keeps for itself
PANELS = {
    "": "images",
    "train": "schedule",
}  # the part, where nothing else is said; --train names images
ALIASES = {"images": ("--train",)}  # what to train on, in the command that trains
EVERYTHING = ("images", "ood", "mixing", "task", "method", "train")  # of meta-training


def options(
    *wanted: str, default: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some settings: all of a part ("task"), or one of them ("method.samples", "images").

    The command takes them as `**chosen`, None where an option was not given; :func:`settings_with` applies them.
    `default` says in the help what then holds, where it is not the settings' own default; "" says nothing.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(*positional: Any, **named: Any) -> None:
            return command(*positional, **named)

        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        made = [_parameter(part, field, hint, default) for part, field, hint in _fields(wanted)]
        wrapped.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {}  # Typer reads the signature
        return wrapped

    return decorate


def settings_with(
    base: Settings, chosen: Mapping[str, Any], wanted: tuple[str, ...] = EVERYTHING
) -> Settings:
    """`base` with the options that were given, of those `wanted`; values that cannot be are wrong usage."""
    changes: dict[str, dict[str, Any]] = {}
    for part, field, hint in _fields(wanted):
        value = chosen.get(_option_name(part, field))
        if value is not None:
            changes.setdefault(part, {})[field.name] = _parsed(
                value, hint, _option_name(part, field)
            )
    whole = changes.pop("", {})
    try:
        known = {_option_name(part, field) for part, field, _ in _fields(EVERYTHING)}
        others = [name for name, value in chosen.items() if value is not None and name not in known]
        method = changes.get("method", {}).get("name", base.method.name)
        given = _own_given(method, chosen) if others else {}
        if given:
            changes.setdefault("method", {})["options"] = base.method.options | given
        parts = {
            part: dataclasses.replace(getattr(base, part), **values)
            for part, values in changes.items()
        }
        return dataclasses.replace(base, **parts, **whole)
    except AnyshotError as error:
        raise typer.BadParameter(str(error)) from error


def settings_diff(
    settings: Settings, base: Settings, wanted: tuple[str, ...] = EVERYTHING
) -> dict[str, list[tuple[str, str, str]]]:
    """By panel: the name of every setting `wanted` as an option, its value, and its value in `base`."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for part, field, _ in _fields(wanted):
        value, before = (
            _shown(getattr(getattr(one, part) if part else one, field.name)) or "default"
            for one in (settings, base)
        )
        name = _flag(part, field)[2:]
        found.setdefault(PANELS.get(part, part), []).append((name, value, before))
    try:
        own = _own_fields(settings.method.name)
    except CodeError:  # the file is gone: the run has a copy of it, and none of these is new
        own = []
    for field, _ in own:
        value, before = (
            _shown(one.method.options.get(field.name, field.default)) for one in (settings, base)
        )
        found.setdefault(display_name(settings.method.name), []).append(
            (field.name.replace("_", "-"), value, before)
        )
    return found


def add_method_options(command: Callable[..., None], method: str) -> Callable[..., None]:
    """The command with the options of a method's own settings, too."""
    signature = inspect.signature(command)
    own = [
        _parameter(display_name(method), field, hint, None) for field, hint in _own_fields(method)
    ]
    for parameter in own:
        if parameter.name in signature.parameters:
            raise AnyshotError(
                f"{method!r} has a setting {parameter.name!r}, but there is one already; rename it."
            )

    @functools.wraps(command)
    def wrapped(**named: Any) -> None:
        return command(**named)

    parameters = [*signature.parameters.values(), *own]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped


def _own_fields(method: str) -> list[tuple[dataclasses.Field[Any], Any]]:
    """(field, type) of a method's own settings; anyshot's own methods have theirs among the others."""
    if METHODS.is_builtin(method):
        return []
    from anyshot.methods import method_class

    own = method_class(MethodSettings(name=method)).Options
    hints = typing.get_type_hints(own)
    return [(field, hints[field.name]) for field in dataclasses.fields(own)]


def _own_given(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The method's own settings that were given, checked."""
    fields = [
        (field, hint) for field, hint in _own_fields(method) if chosen.get(field.name) is not None
    ]
    given = {field.name: _parsed(chosen[field.name], hint, field.name) for field, hint in fields}
    if given:
        from anyshot.methods import method_class

        method_class(MethodSettings(name=method, options=given))
    return given


def _fields(wanted: tuple[str, ...]) -> Iterator[tuple[str, dataclasses.Field[Any], Any]]:
    """(part, field, type) of each field that is wanted; the part of a field of Settings itself is ""."""
    hints = typing.get_type_hints(Settings)
    for name in wanted:
        part, _, one = name.partition(".")
        whole = nested_dataclass(hints[part])
        cls, part = (whole, part) if whole else (Settings, "")
        for field in dataclasses.fields(cls):
            named = field.name == (one if whole else name) or (whole and not one)
            if named and "choices" in field.metadata:  # not a method's own settings
                yield part, field, typing.get_type_hints(cls)[field.name]


def _option_name(part: str, field: dataclasses.Field[Any]) -> str:
    return RENAMED.get((part, field.name), field.name)


def _flag(part: str, field: dataclasses.Field[Any]) -> str:
    return FLAGS.get(field.name) or f"--{_option_name(part, field).replace('_', '-')}"


def _parameter(
    part: str, field: dataclasses.Field[Any], hint: Any, default: str | None
) -> inspect.Parameter:
    name, choices, many = (
        _option_name(part, field),
        field.metadata.get("choices"),
        typing.get_origin(hint) is tuple,
    )
    help, listed, is_open = (
        field.metadata.get("help", ""),
        "|".join(choices or ()),
        isinstance(choices, Registry),
    )
    brief = bool(choices) and not many and not is_open and len(listed) < 16
    if choices and not brief:
        help += f" {'Any' if many else 'One'} of {', '.join(choices)}{', or FILE.py:NAME' if is_open else ''}."
    if shown := _shown(field.default) if default is None else default:
        help += f" Default: {shown}."
    metavar = listed if brief else "A,B" if many else "NAME" if choices else METAVARS.get(hint)
    shape = str if many or is_open else Literal[choices] if choices else _single(hint)
    flag = _flag(part, field)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if hint is bool else flag,
        *ALIASES.get(name, ()),
        help=help,
        metavar=metavar,
        show_default=False,
        rich_help_panel=f"{'Switches' if hint is bool else 'Settings'}: {PANELS.get(part, part)}",
    )
    annotation = Annotated[shape | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _single(hint: Any) -> Any:
    """float for float | None."""
    return (
        next(a for a in typing.get_args(hint) if a is not type(None))
        if isinstance(hint, types.UnionType)
        else hint
    )


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return "" if default in (None, dataclasses.MISSING) else str(default)


def split_commas(text: str, name: str) -> list[str]:
    """The words of an option that takes several, separated by commas; "none" is none of them."""
    found = [word.strip() for word in text.split(",")] if text != "none" else []
    if not all(found):
        raise typer.BadParameter(
            "There is nothing here, or between two commas.", param_hint=f"--{name}"
        )
    return found


def _parsed(value: Any, hint: Any, name: str) -> Any:
    """An option's value as the field's type."""
    if typing.get_origin(hint) is not tuple:
        return _single(hint)(value)
    kind = typing.get_args(hint)[0]
    try:
        return tuple(kind(word) for word in split_commas(value, name))
    except ValueError as error:
        raise typer.BadParameter(
            f"{value!r} should be numbers separated by commas.", param_hint=f"--{name}"
        ) from error
