"""The libraries that anyshot is compared with."""

from __future__ import annotations

import importlib
import warnings
from importlib.util import find_spec
from types import ModuleType

LIBRARIES = ("higher", "torchopt")


def import_without_warnings(name: str) -> ModuleType:
    """Import a library whose own code is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def missing_libraries() -> list[str]:
    """The libraries that are not installed."""
    return [name for name in LIBRARIES if find_spec(name) is None]


def explain_missing(name: str) -> str:
    """A sentence on a library that is not installed."""
    return f"{name} is not installed and was left out; pip install 'anyshot[bench]' installs it."
