"""What the units of a grid do in tests; in a file of its own, since the processes of a grid import it by its name."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import cores
from anyshot.core.version import VERSION


def begun(folder: Path) -> int:
    """Write down that the unit of a folder has begun once more; how many times it has."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "begun", "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return len((folder / "begun").read_text(encoding="utf-8").splitlines())


def say(folder: Path) -> tuple[str, int, int]:
    """The folder's name, the process and its cores."""
    print(f"This is {folder.name}.")
    print("Not so good.", file=sys.stderr)
    begun(folder)
    return folder.name, os.getpid(), cores()


def fail(folder: Path) -> str:
    """Fails if the folder's name says so."""
    if folder.name == "bad":
        raise AnyshotError("There is nothing to learn from.")
    if folder.name == "bug":
        raise ZeroDivisionError("division by zero")
    return folder.name


def die(folder: Path) -> int:
    """Is killed once, or each time, as the folder's name says."""
    times = begun(folder)
    if folder.name == "always" or (folder.name == "once" and times == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return times


def wait_once(folder: Path) -> int:
    """Never ends the first time that it is begun, except in the folder 'quick'."""
    times = begun(folder)
    if times == 1 and folder.name != "quick":
        time.sleep(600)
    return times


def outlive(folder: Path) -> int:
    """Waits until the node that the file 'doomed' names has been killed; for ever, on that node."""
    import ray

    times, doomed = begun(folder), (folder.parent / "doomed").read_text(encoding="utf-8")
    while (
        ray.get_runtime_context().get_node_id() == doomed or not (folder.parent / "killed").exists()
    ):
        time.sleep(0.05)
    return times


def blind(probe: Path) -> tuple[str, bool]:
    """What a node says that does not see the folder."""
    return VERSION, not probe.exists()


def outdated(probe: Path) -> tuple[str, bool]:
    """What a node says that has another version."""
    return "0.0.0", probe.exists()
