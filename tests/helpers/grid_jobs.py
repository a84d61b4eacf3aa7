"""Jobs for tests of grids, in a module that the processes of a grid can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import cores
from anyshot.core.version import VERSION


def count_start(folder: Path) -> int:
    """Record in the folder that its job has started; return the number of starts."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "started", "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return len((folder / "started").read_text(encoding="utf-8").splitlines())


def describe_process(folder: Path) -> tuple[str, int, int]:
    """Print to both streams; return the folder's name, the process and its cores."""
    print(f"This is {folder.name}.")
    print("Not so good.", file=sys.stderr)
    count_start(folder)
    return folder.name, os.getpid(), cores()


def fail(folder: Path) -> str:
    """Fail in the folders 'bad' and 'bug'."""
    if folder.name == "bad":
        raise AnyshotError("There are no images.")
    if folder.name == "bug":
        raise ZeroDivisionError("division by zero")
    return folder.name


def die(folder: Path) -> int:
    """Kill the process at the first start in the folder 'once', at every start in 'always'."""
    starts = count_start(folder)
    if folder.name == "always" or (folder.name == "once" and starts == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return starts


def hang_once(folder: Path) -> int:
    """Hang at the first start, except in the folder 'quick'."""
    starts = count_start(folder)
    if starts == 1 and folder.name != "quick":
        time.sleep(600)
    return starts


def wait_for_kill(folder: Path) -> int:
    """Wait until the node named in the file 'doomed' was killed; on that node, wait forever."""
    import ray

    starts = count_start(folder)
    doomed = (folder.parent / "doomed").read_text(encoding="utf-8")
    while (
        ray.get_runtime_context().get_node_id() == doomed or not (folder.parent / "killed").exists()
    ):
        time.sleep(0.05)
    return starts


def listening_addresses(folder: Path) -> list[str]:
    """The IPv4 and IPv6 addresses on which processes of this machine's Ray listen."""
    inodes = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"ray" in command:
                links = [os.readlink(fd) for fd in (process / "fd").iterdir()]
                inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
        except OSError:  # the process has ended
            continue
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # 0A: LISTEN
                addresses.add(fields[1].split(":")[0])
    return sorted(addresses)


def miss_folder(marker: Path) -> tuple[str, bool]:
    """The answer of a node that does not see the folder."""
    return VERSION, not marker.exists()


def have_old_version(marker: Path) -> tuple[str, bool]:
    """The answer of a node with another version."""
    return "0.0.0", marker.exists()
