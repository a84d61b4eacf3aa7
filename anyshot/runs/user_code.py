"""User code of a run: a method, body, statistic or shot rule that does not come with anyshot.

A run keeps a copy of every user source file in ``RUN/code``. It loads the original file while that
is unchanged, and the copy otherwise, so that a run always computes with the code it started with.
Only the named file is copied, not the modules that it imports.

Loading user code runs it. A run folder may come from somebody else, so nothing is loaded unless the
caller trusts the run.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyshot.core.code_loading import (
    IMPORT_PATH,
    Fingerprint,
    fingerprint,
    load_copy,
    read_source,
)
from anyshot.core.errors import CodeError
from anyshot.core.files import write_bytes
from anyshot.core.registry import BODIES, ENCODERS, METHODS, POOLINGS, SHOT_RULES, STATISTICS
from anyshot.core.settings import Settings

log = logging.getLogger(__name__)

CODE_FOLDER = "code"
_warned: set[tuple[Path, str]] = set()  # (copy, file) of the changed files that were reported


def record_code(settings: Settings) -> dict[str, Fingerprint]:
    """Return import path -> fingerprint of all user code that the settings name."""
    return {path: fingerprint(path) for path in settings.user_code()}


def copy_code(records: Mapping[str, Fingerprint], folder: Path) -> None:
    """Copy the recorded source files into a run folder."""
    for record in records.values():
        if record["file"] is not None:
            write_bytes(_copy_path(folder, record), read_source(Path(record["file"])))


def remove_copies(records: Mapping[str, Fingerprint], folder: Path) -> None:
    """Delete what :func:`copy_code` wrote."""
    for record in records.values():
        if record["file"] is not None:
            _copy_path(folder, record).unlink(missing_ok=True)
    with suppress(OSError):  # the folder holds other files, or there is none
        (folder / CODE_FOLDER).rmdir()


def resolve_code(
    settings: Settings, records: Mapping[str, Fingerprint], folder: Path, trust_code: bool
) -> Settings:
    """Check the user code of a run and return settings whose import paths lead to the right files.

    Raises
    ------
    CodeError
        If code would have to be loaded and ``trust_code`` is false, or if neither the original file
        nor the copy is what the run started with.
    """
    copies = {}
    for path in settings.user_code():
        if not IMPORT_PATH.fullmatch(path):
            continue  # a name that was registered inside a function: nothing can load it
        record = records[path]  # not trusted either: it may claim that there is no file
        unchanged = _current_digest(path) == record.get("sha256")
        if unchanged and _is_registered(path):  # this process has run the code already
            continue
        copy = _copy_path(folder, record)
        if not trust_code:
            raise CodeError(
                f"The run '{folder}' uses code that does not come with anyshot: "
                f"{_location(path, record, copy, unchanged)}. Loading the run executes that code. "
                "If you trust it, pass trust_code=True (on the command line: --trust-code)."
            )
        if not unchanged:
            _check_copy(path, record, copy, folder)
            copies[path] = load_copy(path, copy)
    return settings if not copies else Settings.from_dict(_replace(settings.as_dict(), copies))


def _location(path: str, record: Fingerprint, copy: Path, unchanged: bool) -> str:
    """The file that a run would execute; the import path if the record names no file."""
    file = record.get("file")
    return repr(path) if file is None else f"'{file if unchanged else copy}'"


def _copy_path(folder: Path, record: Fingerprint) -> Path:
    name = f"{Path(str(record.get('file'))).stem}-{str(record.get('sha256'))[:12]}.py"
    return folder / CODE_FOLDER / name


def _current_digest(path: str) -> str | None:
    """SHA-256 of the file that an import path leads to now; None if there is no such file."""
    try:
        return fingerprint(path)["sha256"]
    except CodeError:
        return None


def _is_registered(path: str) -> bool:
    registries = (METHODS, BODIES, STATISTICS, ENCODERS, POOLINGS, SHOT_RULES)
    return any(registry.is_registered(path) for registry in registries)


def _check_copy(path: str, record: Fingerprint, copy: Path, folder: Path) -> None:
    """Check that the copy is what the run started with, and warn once that it is used."""
    expected = str(record.get("sha256"))
    actual = hashlib.sha256(copy.read_bytes()).hexdigest() if copy.is_file() else "none"
    if actual != expected:
        raise CodeError(
            f"The code {path!r} has changed or is missing since the run '{folder}' started, and "
            f"the run has no intact copy in '{copy}' (SHA-256 {expected[:12]}… expected). Restore "
            f"that version of '{record.get('file')}', or start a new run."
        )
    if (copy, path) not in _warned:
        _warned.add((copy, path))
        log.warning(
            "'%s' has changed or is missing since the run '%s' started; the run uses its copy "
            "'%s'. Start a new run to use the changed file.",
            record["file"], folder, copy,
        )  # fmt: skip


def _replace(value: Any, copies: Mapping[str, str]) -> Any:
    """Replace import paths in plain settings; a shot rule may be followed by its range."""
    if isinstance(value, dict):
        return {key: _replace(each, copies) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replace(each, copies) for each in value]
    for path, copy in copies.items():
        if isinstance(value, str) and (value == path or value.startswith(f"{path}:")):
            return copy + value[len(path) :]
    return value
