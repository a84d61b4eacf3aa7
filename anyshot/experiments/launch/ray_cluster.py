"""A grid on the nodes of a Ray cluster, each unit a Ray task: one whose worker or node dies is begun again by Ray."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.version import VERSION
from anyshot.experiments.launch.job import RETRIES, Ended, JobResult, run_guarded

T = TypeVar("T")


def run_on_ray(
    units: Mapping[str, T], run_unit: Callable[[T], object], jobs: int | None, address: str | None
) -> Ended:
    """Units on the cluster at ``address``; without one on this machine, in a cluster that ends with us."""
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        _join(ray, address)
    waiting: dict[Any, str] = {}
    try:
        for place in {Path(folder).absolute().parent for folder in units}:
            _check_nodes(ray, place)
        task = ray.remote(max_retries=RETRIES, **_needs(ray, jobs))(_on_node)
        here = os.getcwd()
        waiting = {
            task.remote(run_unit, unit, folder, here): folder for folder, unit in units.items()
        }
        while waiting:
            for done in ray.wait(list(waiting))[0]:
                yield waiting.pop(done), _outcome(ray, done)
    finally:
        for task in waiting:
            ray.cancel(task, force=True)
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AnyshotError("Ray is not installed; run: pip install 'anyshot[cluster]'") from error
    return ray


def _join(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    new = {} if address else {"include_dashboard": False}
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **new)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise AnyshotError(
            f"There is no Ray cluster at {address!r} ({reason}); start one there with: ray start --head"
        ) from error


def _needs(ray: Any, jobs: int | None) -> dict[str, float]:
    """What a unit asks for: as many processors as there are for each of so many jobs, of one node; a GPU if any."""
    there, nodes = (
        ray.cluster_resources(),
        [n["Resources"].get("CPU", 0) for n in ray.nodes() if n["Alive"]],
    )
    processors = int(there.get("CPU", 1)) // (jobs or int(there.get("CPU", 1)))
    return {
        "num_cpus": max(1, min(processors, int(max(nodes)))),
        "num_gpus": min(1, there.get("GPU", 0)),
    }


def _check_nodes(ray: Any, folder: Path) -> None:
    """Every node must see the folder, and have our version."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = folder / f".{uuid.uuid4().hex}"
    with os_errors_as_messages("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
    try:
        nodes = {
            node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]
        }
        look, seen = ray.remote(num_cpus=0)(_seen), {}
        for node, name in nodes.items():
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            with suppress(ray.exceptions.RayError):  # it has died meanwhile
                seen[name] = ray.get(look.options(scheduling_strategy=there).remote(probe))
    finally:
        probe.unlink()
    for name, (version, visible) in seen.items():
        if not visible:
            raise AnyshotError(
                f"The node {name} does not see the folder '{folder}'; name one that all nodes share, by the same path."
            )
        if version != VERSION:
            raise AnyshotError(
                f"The node {name} has anyshot {version}, but this is {VERSION}; install the same there."
            )


def _seen(probe: Path) -> tuple[str, bool]:
    return VERSION, probe.exists()


def _on_node(run_unit: Callable[[T], object], unit: T, folder: str, here: str) -> JobResult:
    """A unit in Ray's worker, in the folder that the command was given in, on the processors that it asked for."""
    import ray

    from anyshot.core.parallel.threads import cores, limit_cores, tune_process

    tune_process()
    limit_cores(1)
    limit_cores(
        max(1, cores() // int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    )
    with suppress(OSError):  # relative paths need it, others do not
        os.chdir(here)
    return run_guarded(run_unit, unit, folder)


def _outcome(ray: Any, task: Any) -> JobResult:
    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        return JobResult(
            error=f"its worker died {RETRIES + 1} times ({str(error).splitlines()[0]})"
        )
