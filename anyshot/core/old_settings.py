"""Read settings that earlier versions of anyshot wrote.

Earlier versions had the options of all methods in ``method`` itself, called the pre-training
``warm`` (such a run had no meta-training), and had a few options that no longer exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from anyshot.core.builtin_options import BUILTIN_OPTIONS, options_class
from anyshot.core.errors import SettingsError
from anyshot.core.options import default_of
from anyshot.core.registry import METHODS

#: Options that were removed, and the value that stands for what anyshot does now.
REMOVED: dict[str, dict[str, Any]] = {
    "method": {"head_scale": 0.1, "task_cardinality": "shots"},
    "train": {"rising": 0, "first_order_until": 0, "average": 0.0},
    "pretrain": {
        "schedule": "one-cycle",
        "label_smoothing": 0.0,
        "rotations": "none",
        "average": 0.0,
    },
}
#: Every option that used to be in ``method`` itself, by its default.
FLAT = {
    field.name: default_of(field)
    for options in BUILTIN_OPTIONS.values()
    for field in fields(options)
}


def upgrade_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run: ``warm`` becomes ``pretrain``, without meta-training."""
    upgraded = dict(values)
    pretraining = upgraded.pop("warm", None)
    if pretraining is not None:
        train = dict(upgraded.get("train", {}))
        upgraded["pretrain"] = {**pretraining, "seed": train.get("seed", 0)}
        upgraded["train"] = {**train, "iterations": 0}
    return upgraded


def upgrade_part(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """One part ("method", "train" or "pretrain") without options that were removed.

    A removed option at any other value than the one that stands for today's behaviour is an error.
    """
    upgraded = dict(values)
    for name, value in REMOVED[part].items():
        given = upgraded.pop(name, value)
        if given != value:
            raise SettingsError(
                f"This run was trained with {name} = {given!r}, which anyshot no longer has; "
                "use the version that trained it."
            )
    return _nest_method_options(upgraded) if part == "method" else upgraded


def _nest_method_options(values: dict[str, Any]) -> dict[str, Any]:
    """Move the options of methods from ``method`` into ``method.options``.

    A built-in method keeps those that it has; the others never had an effect on it. A method of
    your own keeps those that differ from their defaults.
    """
    flat = {name: values.pop(name) for name in FLAT if name in values}
    if not flat:
        return values
    name = values.get("name", "taml")
    if METHODS.is_builtin(name):
        known = {field.name for field in fields(options_class(name))}
        options = {key: value for key, value in flat.items() if key in known}
    else:
        options = {key: value for key, value in flat.items() if _as_tuple(value) != FLAT[key]}
    return {**values, "options": {**options, **values.get("options", {})}}


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
