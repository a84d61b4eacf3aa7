"""A grid on the nodes of a Ray cluster, each job a Ray task.

Ray restarts a task whose worker or node dies.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from anyshot.core.errors import AnyshotError, FileError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.version import VERSION
from anyshot.experiments.launch.worker import RETRIES, JobResult, JobResults, run_in_worker

T = TypeVar("T")

#: Off: a cluster that is started here listens on the loopback address only. Despite its name, the
#: switch works on every system; on macOS and Windows off is Ray's default.
NETWORK_SWITCH = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def run_on_ray(
    grid: Mapping[str, T], run_job: Callable[[T], object], jobs: int | None, address: str | None
) -> JobResults:
    """Run jobs on the cluster at ``address``; without one, on a cluster that is started here."""
    ray = _import_ray()
    starts_ray = not ray.is_initialized()
    if starts_ray and address:
        _connect(ray, address)
    elif starts_ray:
        _start_on_loopback(ray)
    waiting: dict[Any, str] = {}
    try:
        for parent in {Path(folder).absolute().parent for folder in grid}:
            _check_nodes(ray, parent)
        remote = ray.remote(max_retries=RETRIES, **_resources(ray, jobs))(_run_on_node)
        directory = os.getcwd()
        waiting = {
            remote.remote(run_job, job, folder, directory): folder for folder, job in grid.items()
        }
        while waiting:
            for task in ray.wait(list(waiting))[0]:
                yield waiting.pop(task), _fetch_result(ray, task)
    finally:
        for task in waiting:
            ray.cancel(task, force=True)
        if starts_ray:
            ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AnyshotError("Ray is not installed; run: pip install 'anyshot[cluster]'") from error
    return ray


def _connect(ray: Any, address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself would retry for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise AnyshotError(
            f"There is no Ray cluster at {address!r} ({reason}); "
            "start one there with: ray start --head"
        ) from error


def _start_on_loopback(ray: Any) -> None:
    """Start a cluster on this machine that no other machine can reach.

    Ray's ports run code from anyone who reaches them. A node address of 127.0.0.1 is not enough:
    Ray replaces it by that of a network interface, unless the switch is off. Ray reads the switch
    when it is imported, so the constant is set as well; its other processes read the variable.
    """
    from ray._private import ray_constants

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = os.environ.get(NETWORK_SWITCH)
    constant = ray_constants.ENABLE_RAY_CLUSTER
    os.environ[NETWORK_SWITCH] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(
            address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = constant
        del os.environ[NETWORK_SWITCH]
        if before is not None:
            os.environ[NETWORK_SWITCH] = before
    host = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(host).is_loopback:
        ray.shutdown()
        raise AnyshotError(
            f"Ray {ray.__version__} would listen on {host} instead of this machine's loopback "
            "address; start a cluster yourself and name it with --address."
        )


def _resources(ray: Any, jobs: int | None) -> dict[str, float]:
    """The resources of a job: an equal share of the processors, on one node, and a GPU if any."""
    total = ray.cluster_resources()
    nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
    processors = int(total.get("CPU", 1))
    share = processors // (jobs or processors)
    return {
        "num_cpus": max(1, min(share, int(max(nodes)))),
        "num_gpus": min(1, total.get("GPU", 0)),
    }


def _check_nodes(ray: Any, folder: Path) -> None:
    """Check that every node sees the folder and has this version of anyshot."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    marker = folder / f".{uuid.uuid4().hex}"
    with os_errors_as_messages("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        marker.touch()
    try:
        nodes = {
            node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]
        }
        remote = ray.remote(num_cpus=0)(_inspect_node)
        inspected = {}
        for node, name in nodes.items():
            on_node = NodeAffinitySchedulingStrategy(node, soft=False)
            with suppress(ray.exceptions.RayError):  # the node died in the meantime
                inspected[name] = ray.get(
                    remote.options(scheduling_strategy=on_node).remote(marker)
                )
    finally:
        marker.unlink()
    for name, (version, visible) in inspected.items():
        if not visible:
            raise FileError(
                f"The node {name} does not see the folder '{folder}'; use a folder that all nodes "
                "share under the same path."
            )
        if version != VERSION:
            raise AnyshotError(
                f"The node {name} has anyshot {version}, this machine has {VERSION}; "
                "install the same version on both."
            )


def _inspect_node(marker: Path) -> tuple[str, bool]:
    """The node's version of anyshot, and whether it sees a file."""
    return VERSION, marker.exists()


def _run_on_node(run_job: Callable[[T], object], job: T, folder: str, directory: str) -> JobResult:
    """Run a job in Ray's worker, in the directory of the command, on its share of the cores."""
    import ray

    from anyshot.core.parallel.threads import cores, limit_cores, tune_process

    tune_process()
    limit_cores(1)
    assigned = int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1))
    limit_cores(max(1, cores() // assigned))
    with suppress(OSError):  # only relative paths need it
        os.chdir(directory)
    return run_in_worker(run_job, job, folder)


def _fetch_result(ray: Any, task: Any) -> JobResult:
    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        reason = str(error).splitlines()[0]
        return JobResult(error=f"its worker died {RETRIES + 1} times ({reason})")
