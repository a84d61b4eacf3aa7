"""Ensembles on disk: a run whose folder has further runs, the other members, as subfolders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyshot.core.errors import RunError
from anyshot.core.files import write_json
from anyshot.core.settings import MethodSettings

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


def pack_ensemble(runs: Sequence[Run], folder: str | Path) -> None:
    """Write several runs to a folder that is then used like one run: the average of their answers.

    Raises
    ------
    RunError
        If the runs differ in more than body, seed and training, or have learned from other images
        or classes: a test class of one must not be a training class of another.
    """
    first, *others = runs
    for run in others:
        if _compared(run) != _compared(first):
            raise RunError(
                f"'{run.folder}' has other settings of the method, or has learned from other "
                f"images or classes, than '{first.folder}'. Members of an ensemble differ only in "
                "body, seed and training."
            )
    names = [f"member-{number}" for number in range(2, len(runs) + 1)]
    for run, name in zip(others, names, strict=True):
        run.export(Path(folder) / name)
    first.export(folder)
    if names:
        write_json(Path(folder) / "config.json", {**first.info, KEY: names})


def _compared(run: Run) -> tuple[MethodSettings, tuple[int, int], list[tuple[str, str, str]]]:
    """What members have in common."""
    method = replace(run.settings.method, body="conv4", channels=None, start="paper")
    learned = [
        (record.name, record.checksum, repr(sorted(record.splits.items())))
        for record in run.sets
        if record.learned
    ]
    return method, run.image_size, sorted(learned)
