"""Packed runs: what is needed to use a run, or several as an ensemble, without training.

An ensemble is a packed run whose folder has further packed runs, the other members, as subfolders.
"""

from __future__ import annotations

import copy
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.core.errors import RunError
from anyshot.core.files import sha256, write_json
from anyshot.core.settings import MethodSettings
from anyshot.runs.user_code import CODE_FOLDER

if TYPE_CHECKING:
    from anyshot.runs.run import Run

KEY = "members"  #: in config.json: names of the subfolders of the other members


def other_members(run: Run) -> list[Run]:
    """Return the members of an ensemble but the first, with the settings of the first.

    Tests may have changed these settings; each member keeps its own body.
    """
    members = []
    for name in run.info.get(KEY, ()):
        member = type(run)(run.folder / str(name), run.trust_code)
        own, shared = member.settings.method, run.settings.method
        shared = replace(shared, body=own.body, channels=own.channels, start=own.start)
        member.settings = replace(run.settings, method=shared)
        members.append(member)
    return members


def pack(runs: Sequence[Run], folder: str | Path) -> None:
    """Write one run, or several as an ensemble: the average of their answers.

    The folder gets settings, recorded image sets, user code and the chosen parameters. It is then
    used like the folder of a run. Members of an ensemble that is packed again become members.

    Raises
    ------
    RunError
        If the folder holds a run with a training, or a run has no chosen parameters yet. If members
        differ in more than body, seed and training, or have learned from other images or classes:
        a test class of one must not be a training class of another.
    """
    folder = Path(folder)
    if (folder / "run.json").exists():
        raise RunError(
            f"'{folder}' holds a run, whose parameters would be overwritten; give a new folder "
            "after the runs."
        )
    members = [member for run in runs for member in (run, *other_members(run))]
    _check_members(members)
    names = [f"member-{number}" for number in range(2, len(members) + 1)]
    for member, name in zip(members[1:], names, strict=True):
        _write(member, folder / name, [])
    _write(members[0], folder, names)


def _check_members(members: Sequence[Run]) -> None:
    """Refuse runs that cannot be members of one ensemble."""
    first = members[0]
    seen: dict[str, Run] = {}
    for run in members:
        run.best()  # raises if there are no parameters yet, or if the file is damaged
        if _compared(run) != _compared(first):
            raise RunError(
                f"'{run.folder}' has other settings of the method, or has learned from other "
                f"images or classes, than '{first.folder}'. Members of an ensemble differ only in "
                "body, seed and training."
            )
        parameters = sha256(run.best_path.read_bytes())
        if parameters in seen:
            raise RunError(
                f"'{run.folder}' has the same parameters as '{seen[parameters].folder}'; give each "
                "run once."
            )
        seen[parameters] = run


def _write(run: Run, folder: Path, members: Sequence[str]) -> None:
    """Write a member; ``members`` are the subfolders of the others if it is the first."""
    info = {key: value for key, value in _without_paths(run.info).items() if key != KEY}
    write_json(folder / "config.json", info | ({KEY: members} if members else {}))
    shutil.copyfile(run.best_path, folder / run.best_path.name)
    if (code := run.folder / CODE_FOLDER).is_dir():
        shutil.copytree(code, folder / CODE_FOLDER, dirs_exist_ok=True)


def _without_paths(info: dict[str, Any]) -> dict[str, Any]:
    """Name other runs by their folder alone: packed runs are for other machines."""
    info = copy.deepcopy(info)
    words = shlex.split(info.get("command") or "")
    info["command"] = shlex.join(_last_part(word) for word in words)
    places = (
        (info["settings"]["train"], "body_from"),
        (info["settings"]["pretrain"], "teacher"),
        (info.get("body"), "source"),
    )
    for group, key in places:
        if group and group.get(key):
            group[key] = _last_part(group[key])
    return info


def _last_part(text: str) -> str:
    """The last part of an absolute path, or other text as it is."""
    return Path(text).name if Path(text).is_absolute() else text


def _compared(run: Run) -> tuple[MethodSettings, tuple[int, int], list[tuple[str, str, str]]]:
    """What members have in common."""
    method = replace(run.settings.method, body="conv4", channels=None, start="paper")
    learned = [
        (record.name, record.checksum, repr(sorted(record.splits.items())))
        for record in run.sets
        if record.learned
    ]
    return method, run.image_size, sorted(learned)
