"""The file that describes a run: ``run.json``, or ``config.json`` of exported weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshot.core.code_loading import Fingerprint
from anyshot.core.errors import AnyshotError, RunError
from anyshot.core.files import read_json
from anyshot.core.settings import Settings
from anyshot.runs.image_record import SetRecord


@dataclass(frozen=True)
class Description:
    """What a run was started with."""

    info: dict[str, Any]  #: the whole file
    settings: Settings
    image_size: tuple[int, int]  #: height and width
    sets: tuple[SetRecord, ...]  #: image sets that it was trained and validated on
    code: dict[str, Fingerprint]  #: import path of user code -> fingerprint
    run_id: str | None  #: None for runs that were started before runs had an identity


def description_file(folder: Path) -> Path | None:
    """Return the file that describes the run in a folder; None if there is no run."""
    files = (folder / "run.json", folder / "config.json")
    return next((file for file in files if file.is_file()), None)


def read_description(file: Path) -> Description:
    """Read and check a description; anything else than a description is a RunError."""
    info = read_json(file)
    if not isinstance(info, dict):
        raise _damaged_file_error(file, f"it holds {type(info).__name__}, not an object")
    try:
        settings = Settings.from_dict(info["settings"])
        height, width = map(int, info["image_size"])
        if min(height, width) < 1:
            raise ValueError(f"the image size is {height}×{width}")
        sets = tuple(map(SetRecord.from_dict, info["sets"]))
        code: dict[str, Fingerprint] = {
            path: dict(info["code"][path]) for path in settings.user_code()
        }
    except KeyError as error:
        raise _damaged_file_error(file, f"{error} is missing") from error
    except (AnyshotError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged_file_error(file, str(error)) from error
    run_id = info.get("id")
    run_id = None if run_id is None else str(run_id)
    return Description(info, settings, (height, width), sets, code, run_id)


def _damaged_file_error(file: Path, reason: str) -> RunError:
    return RunError(
        f"'{file}' does not describe a run ({reason}); restore it, or choose another folder."
    )
