"""Options as dataclass fields: help text, choices and limits are defined once, with the default.

The command line and JSON are generated from these fields. :func:`from_plain` reads a dataclass
from plain values, :func:`non_default` writes what differs from the defaults, and
:func:`check_fields` checks every value of a dataclass against its type, choices and limits.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from anyshot.core.errors import SettingsError
from anyshot.core.registry import Registry

T = TypeVar("T")

MAX_NUMBER = 10**9  #: the default upper limit of every number: a larger one is a typing error


def option(
    default: Any,
    help: str,
    choices: tuple[str, ...] | Registry = (),
    least: float | None = None,
    above: float | None = None,
    most: float = MAX_NUMBER,
) -> Any:
    """A dataclass field with a help text and checks, which becomes an option of the command line.

    Parameters
    ----------
    default
        The default value.
    help : str
        One or two sentences for ``--help``.
    choices : tuple of str or Registry
        The allowed values; empty: all values of the field's type.
    least, above : float, optional
        The value must be at least ``least``, or greater than ``above``.
    most : float
        The value must be at most this, and at least minus this.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     factor: float = option(0.5, "Scales the loss.", above=0)
    >>> Options().factor
    0.5
    """
    limits = {"least": least, "above": above, "most": most}
    metadata = {"help": help, "choices": choices, **limits}
    return dataclasses.field(default=default, metadata=metadata)


def suggestion(word: str, words: Iterable[str]) -> str:
    """The end of an error message: the known word closest to an unknown one, or all known words.

    >>> suggestion("wya", ["way", "shots"])
    "; did you mean 'way'?"
    >>> suggestion("zzz", ["way", "shots"])
    '; there are way, shots.'
    """
    words = list(words)
    close = difflib.get_close_matches(word, words, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(words)}."


def refuse_unknown_arguments(cls: type[T]) -> type[T]:
    """Decorate a dataclass: an unknown argument is a SettingsError with a suggestion.

    A class may explain some names itself, by a static method ``explain_unknown(name)`` that returns
    a sentence or None.
    """
    init = cls.__init__
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    explain = getattr(cls, "explain_unknown", lambda name: None)

    @functools.wraps(init)
    def init_and_check(self: T, *args: Any, **kwargs: Any) -> None:
        for key in kwargs:
            if key not in names:
                default = f"{cls.__name__} has no setting {key!r}{suggestion(key, names)}"
                raise SettingsError(explain(key) or default)
        init(self, *args, **kwargs)

    cls.__init__ = init_and_check  # type: ignore[method-assign, assignment]
    return cls


# ------------------------------------------------------------------------------- plain values
def from_plain(cls: type, values: Any) -> Any:
    """A dataclass from plain values, nested ones included; missing fields take their defaults."""
    if not isinstance(values, dict):
        raise SettingsError(f"{cls.__name__} must be a mapping of names to values, not {values!r}.")
    if hasattr(cls, "upgrade"):  # for values that an earlier version wrote
        values = cls.upgrade(values)
    hints = type_hints(cls)
    for key in values:
        if key not in hints:
            hint = suggestion(str(key), hints)
            raise SettingsError(f"There is no setting {key!r} in {cls.__name__}{hint}")
    arguments = {}
    for key, value in values.items():
        nested = nested_dataclass(hints[key])
        if nested is None or value is None:
            arguments[key] = _lists_to_tuples(value)
        else:
            arguments[key] = from_plain(nested, value)
    return cls(**arguments)


def non_default(part: Any) -> dict[str, Any]:
    """The plain values of a dataclass that differ from the defaults.

    A new setting of a later version does not change them.

    >>> from anyshot.core.settings import Settings, TaskSettings
    >>> non_default(Settings(task=TaskSettings(way=10)))
    {'task': {'way': 10}}
    """
    changed = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if value != default_of(field):
            changed[field.name] = non_default(value) if dataclasses.is_dataclass(value) else value
    return changed


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default value of a dataclass field; ``MISSING`` if it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@functools.cache  # reading the annotations would take most of the time of a check
def type_hints(cls: type) -> dict[str, Any]:
    """The type of each field of a dataclass."""
    return typing.get_type_hints(cls)


def nested_dataclass(hint: Any) -> type | None:
    """The dataclass in a type hint ``D`` or ``D | None``; None for every other hint."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
            return candidate
    return None


def parse_method_options(cls: type, values: Mapping[str, Any]) -> Any:
    """A method's ``Options`` from plain values, checked like all other settings."""
    for field in dataclasses.fields(cls):
        if default_of(field) is dataclasses.MISSING:
            raise SettingsError(f"{cls.__qualname__}.{field.name} needs a default value.")
    options = from_plain(cls, dict(values))
    check_fields(options)
    return options


def _lists_to_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists_to_tuples(v) for key, v in value.items()}
    return tuple(value) if isinstance(value, list) else value


# ------------------------------------------------------------------------------- checks
def check_fields(part: Any) -> None:
    """Check every field of a dataclass; make names from a registry canonical."""
    cls: type = type(part)
    hints = type_hints(cls)
    for field in dataclasses.fields(part):
        name = field.name
        value = getattr(part, name)
        _check_type(name, value, hints[name])
        elements = value if isinstance(value, tuple) else (value,)
        for element in elements:
            if isinstance(value, tuple):
                _check_type(f"each of {name}", element, typing.get_args(hints[name])[0])
            _check_value(name, element, field.metadata)
        choices = field.metadata.get("choices")
        if isinstance(choices, Registry):
            names = tuple(choices.canonical_name(element) for element in elements)
            object.__setattr__(part, name, names if isinstance(value, tuple) else names[0])


def _check_type(name: str, value: Any, hint: Any) -> None:
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        allowed = tuple(a for a in typing.get_args(hint) if isinstance(a, type))
    else:
        allowed = (origin or hint,)
    if float in allowed:
        allowed += (int,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        expected = getattr(hint, "__name__", hint)
        raise SettingsError(f"{name} is {value!r}, but must be of type {expected}.")


def _check_value(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    if (choices := metadata.get("choices")) and str(value) not in choices:
        raise SettingsError(f"{name} cannot be {value!r}{suggestion(str(value), choices)}")
    if isinstance(value, str) and not value.strip():
        raise SettingsError(f"{name} is empty; give a value or leave it out.")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least = metadata.get("least")
    above = metadata.get("above")
    most = metadata.get("most", MAX_NUMBER)
    if least is not None and not value >= least:
        raise SettingsError(f"{name} is {value}, but must be at least {least}.")
    if above is not None and not value > above:
        raise SettingsError(f"{name} is {value}, but must be above {above}.")
    if not -most <= value <= most:  # also false for NaN and infinity
        raise SettingsError(f"{name} is {value}, but must be a number of at most {most:,}.")
