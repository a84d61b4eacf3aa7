"""Reserve a run folder for one training process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anyshot.core.atomic_folders import lock_folder, remove_stale_temporaries
from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages
from anyshot.runs import user_code
from anyshot.runs.run import Run


@contextmanager
def exclusive_training(folder: str | Path) -> Iterator[None]:
    """Lock a run folder until the block ends or the process dies.

    Incomplete files of earlier trainings are deleted at the start. A folder in which no run has
    started by the end is left as it was.
    """
    folder = Path(folder)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    with os_errors_as_messages("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"The run '{folder}' is being trained by another process; wait for it, or choose another "
        "folder."
    )
    try:
        with lock_folder(folder / ".lock", busy):
            for each in (folder, folder / "checkpoints"):
                remove_stale_temporaries(each, files=True)
            try:
                yield
            finally:
                if Run.find_started(folder) is None:
                    _remove_description(folder)
    finally:
        for path in (folder / "checkpoints", *created):
            with suppress(OSError):  # not empty: the run has started
                path.rmdir()


def _remove_description(folder: Path) -> None:
    """Delete run.json and the copies of user code of a run that has not started."""
    if (folder / "run.json").is_file():
        with suppress(AnyshotError):
            user_code.remove_copies(Run(folder).code, folder)
        (folder / "run.json").unlink()
