"""Command-line options generated from the settings' dataclasses.

Names, defaults, choices and help texts are defined once, in :mod:`anyshot.core.settings` and
:mod:`anyshot.core.builtin_options`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anyshot.cli.setting_fields import (
    EVERYTHING,
    Setting,
    default_value,
    new_options,
    parse_value,
    select_settings,
    single_type,
    value_text,
)
from anyshot.core.builtin_options import methods_with, options_class
from anyshot.core.errors import AnyshotError, CodeError
from anyshot.core.method_settings import check_option_names
from anyshot.core.registry import METHODS, Registry, display_name
from anyshot.core.settings import PretrainSettings, Settings
from anyshot.core.text import join_words

Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Also write the results and how they were made to this JSON file.",
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
        help="Device; auto: a CUDA GPU if there is one, otherwise the CPU.",
    ),
]
On = Annotated[
    Literal["local", "ray"],
    typer.Option(
        metavar="local|ray",
        help="Backend for several runs: this machine, or a Ray cluster.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Parallel runs, which share the cores. Default: one here, one for each processor of "
        "a cluster.",
        show_default=False,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of the Ray cluster, or auto. Default: a temporary one on this machine.",
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
ALIASES = {"images": ("--train",)}
COMMON = ("images", "method", "body", "way", "shots", "iterations", "epochs", "body_from", "seed")
VALIDATION = (
    "calibrate",
    "validate_by",
    "validate_every",
    "validation_tasks",
    "patience",
    "select",
    "checkpoint_every",
)
PANELS = {
    "": "Images and tasks",
    "task": "Images and tasks",
    "method": "Backbone and inner loop",
    "train": "Meta-training",
    "pretrain": "Pre-training",
}


class UnusedOptionError(typer.BadParameter):
    """An option that has no effect on the chosen method."""


def add_setting_options(
    *selected: str, default: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some settings.

    ``selected`` names a whole part ("task") or single settings ("method.samples", "images"). The
    command takes them as `**chosen`, None where an option was not given; :func:`settings_with`
    applies them. ``default`` is the default that the help names instead of the settings' own; ""
    names none.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(*positional: Any, **named: Any) -> None:
            return command(*positional, **named)

        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        settings = sorted(select_settings(selected), key=_order_in_help)
        options = [_parameter(setting, _help_panel(setting), default) for setting in settings]
        wrapped.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {}  # Typer reads the signature
        return wrapped

    return decorate


def add_method_options(command: Callable[..., None], method: str) -> Callable[..., None]:
    """The command with the options of a method of your own, too."""
    signature = inspect.signature(command)
    panel = f"Options of {display_name(method)}"
    new = [_parameter(setting, panel, None) for setting in new_options(method)]
    for parameter in new:
        if parameter.name in signature.parameters:
            raise AnyshotError(
                f"The option {parameter.name!r} of {method!r} already exists; rename it."
            )

    @functools.wraps(command)
    def wrapped(**named: Any) -> None:
        return command(**named)

    parameters = [*signature.parameters.values(), *new]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped


def settings_with(
    base: Settings,
    chosen: Mapping[str, Any],
    selected: tuple[str, ...] = EVERYTHING,
    skip_unused: bool = False,
) -> Settings:
    """``base`` with the options that were given; a value that is not allowed is wrong usage.

    An option without effect on the method is wrong usage, too; with ``skip_unused`` it is ignored.
    """
    try:
        method = chosen.get("method") or base.method.name
        known = {setting.name for setting in select_settings(EVERYTHING)}
        has_new = any(name not in known for name, value in chosen.items() if value is not None)
        changes: dict[str, dict[str, Any]] = {}
        for setting in [*select_settings(selected), *(new_options(method) if has_new else ())]:
            value = chosen.get(setting.name)
            if value is None:
                continue
            parsed = parse_value(value, setting)
            if setting.part in ("method", "options"):
                reason = _reason_unused(method, setting)
                if reason and skip_unused:
                    continue
                if reason:
                    raise UnusedOptionError(reason, param_hint=setting.flag)
            changes.setdefault(setting.part, {})[setting.field.name] = parsed
        settings = _replace(base, changes)
        if has_new:
            settings.method.all_options()  # checks the values of your own method's options
        return settings
    except AnyshotError as error:
        raise typer.BadParameter(str(error)) from error


def settings_of_runs(bases: list[Settings], chosen: Mapping[str, Any]) -> list[Settings]:
    """The settings of several runs with the options that were given.

    An option applies to the runs whose method has it; one that applies to none is wrong usage.
    """
    for name, value in chosen.items():
        errors = []
        for base in bases if value is not None else ():
            try:
                settings_with(base, {name: value})
            except UnusedOptionError as error:
                errors.append(error)
        if errors and len(errors) == len(bases):
            raise errors[0]
    return [settings_with(base, chosen, skip_unused=True) for base in bases]


def settings_diff(
    settings: Settings, base: Settings, selected: tuple[str, ...] = EVERYTHING
) -> dict[str, list[tuple[str, str, str]]]:
    """By panel: the option's name, its value, and its value in ``base``, of every setting."""
    by_panel: dict[str, list[tuple[str, str, str]]] = {}
    method = settings.method.name
    try:
        of_method = {field.name for field in dataclasses.fields(options_class(method))}
        new = new_options(method)
    except CodeError:  # the file is gone; the run has a copy of it, and no option is new
        of_method = set(settings.method.options)
        new = []
    for setting in [*select_settings(selected), *new]:
        if setting.part == "options" and setting.field.name not in of_method:
            continue
        panel = f"Options of {display_name(method)}"
        if setting.part != "options":
            panel = PANELS[setting.part]
        missing = "default" if "Default:" in setting.field.metadata.get("help", "") else "none"
        value = value_text(setting.value_in(settings)) or missing
        before = value_text(setting.value_in(base)) or missing
        by_panel.setdefault(panel, []).append((setting.flag[2:], value, before))
    return by_panel


# ------------------------------------------------------------------------------- replacing
def _reason_unused(method: str, setting: Setting) -> str | None:
    """Why a setting has no effect on a method; None if it has one."""
    name = setting.field.name
    if setting.part == "options":
        try:
            check_option_names(display_name(method), {name: None}, options_class(method))
        except AnyshotError as error:
            return str(error)
        return None
    if name in ("name", "body", "channels"):  # every method uses these: no need to load its class
        return None
    if name in getattr(METHODS[method], "unused_settings", ()):
        return f"{setting.flag} has no effect on {display_name(method)}; leave it out."
    return None


def _replace(base: Settings, changes: dict[str, dict[str, Any]]) -> Settings:
    whole: dict[str, Any] = dict(changes.get("", {}))
    method = {**changes.get("method", {}), **changes.get("options", {})}
    if method:
        whole["method"] = base.method.with_values(method)
    for part in ("task", "train"):
        if part in changes:
            whole[part] = dataclasses.replace(getattr(base, part), **changes[part])
    if "pretrain" in changes:
        stage = base.pretrain or PretrainSettings()
        whole["pretrain"] = dataclasses.replace(stage, **changes["pretrain"])
    elif changes.get("train", {}).get("body_from"):
        whole["pretrain"] = None  # --from takes the place of pre-training
    settings = dataclasses.replace(base, **whole)
    seed = changes.get("train", {}).get("seed")
    return settings if seed is None else settings.with_seed(seed)


# ------------------------------------------------------------------------------- help
def _help_panel(setting: Setting) -> str:
    if setting.name in COMMON:
        return "Common settings"
    if setting.name in VALIDATION:
        return "Validation and checkpoints"
    if setting.part == "options":
        return f"Options of {join_words(methods_with(setting.name))}"
    return PANELS[setting.part]


def _order_in_help(setting: Setting) -> tuple[int, int]:
    """Common settings first, the options of single methods last."""
    if setting.name in COMMON:
        return 0, COMMON.index(setting.name)
    return (2 if setting.part == "options" else 1), 0


def _parameter(setting: Setting, panel: str, default: str | None) -> inspect.Parameter:
    field = setting.field
    choices = field.metadata.get("choices")
    takes_several = typing.get_origin(setting.hint) is tuple
    is_open = isinstance(choices, Registry)
    listed = "|".join(choices or ())
    brief = bool(choices) and not takes_several and not is_open and len(listed) < 16
    help = field.metadata.get("help", "")
    if choices and not brief:
        quantifier = "Any" if takes_several else "One"
        help += f" {quantifier} of {', '.join(choices)}{', or FILE.py:NAME' if is_open else ''}."
    shown = value_text(default_value(field)) if default is None else default
    if shown and "Default:" not in help:
        help += f" Default: {shown}."
    metavar = METAVARS.get(setting.hint)
    if choices:
        metavar = listed if brief else "NAME"
    if takes_several:
        metavar = "A,B"
    shape = single_type(setting.hint)
    if choices and not is_open:
        shape = Literal[choices]
    if takes_several or is_open:
        shape = str
    flag = setting.flag
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if setting.hint is bool else flag,
        *ALIASES.get(setting.name, ()),
        help=help,
        metavar=metavar,
        show_default=False,
        rich_help_panel=panel,
    )
    annotation = Annotated[shape | None, option]  # type: ignore[valid-type]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(setting.name, kind, default=None, annotation=annotation)
