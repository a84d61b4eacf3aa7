"""Load user code by import path, and recognise it later by its fingerprint.

An import path names an object in a file, ``folder/file.py:NAME``, or in an importable module,
``package.module:NAME``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import inspect
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from anyshot.core.errors import AnyshotError, CodeError
from anyshot.core.files import sha256

IMPORT_PATH = re.compile(r"(?P<file>[^\0]+\.py|(?P<module>[^\W\d][\w.]*)):(?P<name>[^\W\d][\w.]*)")
#: the "file", its "sha256" and the "version" of the package that it belongs to
Fingerprint = Mapping[str, str | None]
SOURCE_DIGEST = "__digest__"  # global variable of every module that _run_file has made
RUN_COPY = "__run_copy__"  # global variable of every module that load_copy has made


def import_path(loaded: Any) -> str:
    """Return the import path of a class or function.

    >>> import_path(CodeError)
    'anyshot.core.errors:CodeError'
    """
    module = sys.modules.get(loaded.__module__)
    file = getattr(module, "__file__", None)
    if loaded.__module__ == "__main__" and file:
        return f"{Path(file).resolve()}:{loaded.__qualname__}"
    return f"{loaded.__module__}:{loaded.__qualname__}"


def absolute_path(name: str) -> str:
    """Return the import path with an absolute file name; any other name stays as it is."""
    match = IMPORT_PATH.fullmatch(name)
    if match is None or match["module"]:
        return name
    return f"{Path(os.path.expanduser(match['file'])).resolve()}:{match['name']}"


def load_object(path: str) -> Any:
    """Import the module or run the file of an import path and return the object.

    >>> load_object("json:dumps") is __import__("json").dumps
    True
    """
    match = _parse_import_path(path)
    try:
        if match["module"]:
            loaded: Any = importlib.import_module(match["module"])
        else:
            loaded = _run_file(Path(match["file"]))
    except AnyshotError:
        raise
    except Exception as error:  # user code may raise anything
        raise CodeError(f"{path!r} cannot be loaded: {type(error).__name__}: {error}.") from error
    for part in match["name"].split("."):
        if not hasattr(loaded, part):
            raise CodeError(f"There is no {match['name']!r} in {match['file']!r}.")
        loaded = getattr(loaded, part)
    return loaded


def _parse_import_path(path: str) -> re.Match[str]:
    match = IMPORT_PATH.fullmatch(path)
    if match is None:
        raise CodeError(f"{path!r} is not an import path; write FILE.py:NAME or MODULE:NAME.")
    return match


def check_call(what: str, function: Any, arguments: str) -> None:
    """Refuse user code that cannot be called with these arguments, names separated by commas.

    >>> check_call("The metric 'len'", len, "p, labels, shots")
    Traceback (most recent call last):
    anyshot.core.errors.CodeError: The metric 'len' cannot be called (too many positional \
arguments); it gets the arguments (p, labels, shots).
    """
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except TypeError as error:
        raise CodeError(
            f"{what} cannot be called ({error}); it gets the arguments ({arguments})."
        ) from error
    except ValueError:  # a function in C that does not tell its arguments
        return


def load_copy(path: str, copy: Path) -> str:
    """Run a copy of the file or module of an import path; return the import path in the copy.

    Relative imports of a module work as in the original.
    """
    match = _parse_import_path(path)
    package = (match["module"] or "").rpartition(".")[0]
    _run_file(copy, {RUN_COPY: True, "__package__": package or None})
    return f"{copy.resolve()}:{match['name']}"


def is_run_copy(loaded: Any) -> bool:
    """Return whether a class or function was made by :func:`load_copy`."""
    return RUN_COPY in vars(sys.modules.get(loaded.__module__, sys))


def _run_file(path: Path, variables: Mapping[str, Any] | None = None) -> ModuleType:
    """Run a file as a module named by its absolute path; run it again only if it has changed.

    Python's import system would take bytecode from its cache, which compares times of a resolution
    of one second; this compares the content. ``variables`` are further global variables.
    """
    path = Path(os.path.expanduser(path)).resolve()
    name = str(path)
    source = read_source(path)
    digest = sha256(source)
    if name in sys.modules and vars(sys.modules[name]).get(SOURCE_DIGEST) == digest:
        return sys.modules[name]
    module = ModuleType(name)
    vars(module).update({"__file__": name, SOURCE_DIGEST: digest, **(variables or {})})
    sys.modules[name] = module
    try:
        exec(compile(source, name, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def read_source(path: Path) -> bytes:
    """Read a source file; a file that cannot be read is a CodeError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CodeError(f"The code in '{path}' cannot be read: {error.strerror}.") from error


def user_code_location(error: BaseException) -> str | None:
    """Return "FILE, line N" of the innermost user code that an error passed through, or None."""
    frames = [(frame.f_globals, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [
        f"{module['__file__']}, line {line}" for module, line in frames if SOURCE_DIGEST in module
    ]
    return lines[-1] if lines else None


def fingerprint(path: str) -> Fingerprint:
    """Return the file, its SHA-256 and the package version of the code at an import path.

    Nothing is imported or run.
    """
    match = IMPORT_PATH.fullmatch(path)
    if match is None:  # registered inside a function
        return {"file": None, "sha256": None, "version": None}
    file: str | None = match["file"]
    version = None
    if match["module"]:
        file = _module_file(match["module"])
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(match["module"].partition(".")[0])
    digest = sha256(read_source(Path(os.path.expanduser(file)))) if file else None
    return {"file": file, "sha256": digest, "version": version}


def _module_file(module: str) -> str | None:
    """Find the file of a module without importing it or its packages; None if it has no file."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    folders: Sequence[str] | None = None  # of the package that the module belongs to
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        specs = (finder.find_spec(name, folders) for finder in sys.meta_path)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or (name != module and spec.submodule_search_locations is None):
            raise CodeError(f"There is no module {module!r}; install it or extend PYTHONPATH.")
        folders = spec.submodule_search_locations
    return spec.origin if spec is not None and spec.has_location else None
