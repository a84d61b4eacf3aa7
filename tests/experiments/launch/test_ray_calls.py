"""What is asked of Ray, against a stand-in that runs tasks at once: Ray need not be installed."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from anyshot.core.errors import AnyshotError, FileError
from anyshot.core.parallel import threads
from anyshot.core.version import VERSION
from anyshot.experiments.launch import ray_cluster, run_grid
from anyshot.experiments.launch.ray_cluster import NETWORK_SWITCH, run_on_ray
from anyshot.experiments.launch.worker import JobResult


class RayError(Exception):
    """The base class of Ray's errors."""


@dataclass(eq=False)
class Task:
    value: object


class Remote:
    """A remote function; its tasks are computed when they are submitted."""

    def __init__(self, ray, function, options):
        self.ray, self.function, self.given = ray, function, options

    def options(self, **options):
        return Remote(self.ray, self.function, {**self.given, **options})

    def remote(self, *arguments):
        strategy = self.given.get("scheduling_strategy")
        if strategy is not None and strategy.node in self.ray.dying:
            return RayError("the node died")
        self.ray.submitted.append((self.function.__name__, self.given))
        try:
            return Task(self.function(*arguments))
        except RayError as error:
            return error


class Ray(ModuleType):
    """The part of Ray that anyshot uses."""

    __version__ = "0"
    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self):
        super().__init__("ray")
        self.initialized = False
        self.host = "127.0.0.1"
        self.resources = {"CPU": 4.0}
        self.cpus = {"a": 4}  # of nodes that are alive
        self.dead = {"c": 64}
        self.dying = ()
        self.events = []
        self.submitted = []
        self.constants = SimpleNamespace(ENABLE_RAY_CLUSTER=True)
        self.util = SimpleNamespace(get_node_ip_address=lambda: self.host)

    def is_initialized(self):
        return self.initialized

    def init(self, **options):
        switches = (os.environ.get(NETWORK_SWITCH), self.constants.ENABLE_RAY_CLUSTER)
        self.events.append(("init", options["address"], switches))
        self.options = options

    def shutdown(self):
        self.events.append(("shutdown",))

    def cluster_resources(self):
        return self.resources

    def nodes(self):
        return [
            {
                "NodeID": name,
                "NodeManagerAddress": f"node {name}",
                "Alive": name in self.cpus,
                "Resources": {"CPU": cpus},
            }
            for name, cpus in {**self.cpus, **self.dead}.items()
        ]

    def remote(self, **options):
        return lambda function: Remote(self, function, options)

    def wait(self, tasks):
        return tasks[:1], tasks[1:]

    def get(self, task):
        if isinstance(task, RayError):
            raise task
        return task.value

    def cancel(self, task, force):
        self.events.append(("cancel", force))


@pytest.fixture
def ray(monkeypatch):
    ray = Ray()
    private, strategies = ModuleType("ray._private"), ModuleType("ray.util.scheduling_strategies")
    private.ray_constants = ray.constants
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: SimpleNamespace(node=node)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray._private", private)
    monkeypatch.setitem(sys.modules, "ray.util", ModuleType("ray.util"))
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    monkeypatch.delenv(NETWORK_SWITCH, raising=False)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    monkeypatch.setattr(
        ray_cluster, "_run_on_node", lambda run_job, job, folder, _: JobResult(run_job(job))
    )
    return ray


def grid(tmp_path, *names):
    return {str(tmp_path / "runs" / name): name for name in names or ("a",)}


@pytest.mark.parametrize("switch", [None, "1"])
def test_a_cluster_that_is_started_here_is_switched_to_loopback(ray, tmp_path, monkeypatch, switch):
    if switch is not None:
        monkeypatch.setenv(NETWORK_SWITCH, switch)
    results = run_grid(grid(tmp_path, "a", "b"), str.upper, on="ray")
    assert [result.value for result in results.values()] == ["A", "B"]
    assert ray.events == [("init", "local", ("0", False)), ("shutdown",)]
    assert ray.options["include_dashboard"] is False
    assert ray.options["log_to_driver"] is False
    assert os.environ.get(NETWORK_SWITCH) == switch
    assert ray.constants.ENABLE_RAY_CLUSTER is True
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_cluster_that_others_could_reach_is_refused(ray, tmp_path):
    ray.host = "192.168.1.7"
    with pytest.raises(AnyshotError, match=r"192\.168\.1\.7.*--address"):
        run_grid(grid(tmp_path), str.upper, on="ray")
    assert ray.events == [("init", "local", ("0", False)), ("shutdown",)]
    assert ray.submitted == []


def test_an_address_is_connected_to(ray, tmp_path):
    ray.host = "192.168.1.7"  # its owner decides who reaches it
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        run_grid(grid(tmp_path), str.upper, on="ray", address=address)
        assert ray.events == [("init", address, (None, True)), ("shutdown",)]
        assert ray.options["log_to_driver"] is False
    with pytest.raises(AnyshotError, match=rf"{address}.*ray start --head"):
        run_grid(grid(tmp_path), str.upper, on="ray", address=address)


def test_a_ray_that_runs_already_is_neither_started_nor_stopped(ray, tmp_path):
    ray.initialized = True
    run_grid(grid(tmp_path), str.upper, on="ray", address="nowhere:1")
    assert ray.events == []


@pytest.mark.parametrize(
    ("resources", "cpus", "jobs", "expected"),
    [
        ({"CPU": 8.0}, {"a": 8}, None, (1, 0)),
        ({"CPU": 8.0}, {"a": 8}, 2, (4, 0)),
        ({"CPU": 8.0}, {"a": 8}, 3, (2, 0)),
        ({"CPU": 8.0}, {"a": 8}, 20, (1, 0)),
        ({"CPU": 8.0}, {"a": 3, "b": 5}, 1, (5, 0)),  # a job runs on one node
        ({"CPU": 8.0, "GPU": 2.0}, {"a": 8}, 4, (2, 1)),
        ({"CPU": 8.0, "GPU": 0.5}, {"a": 8}, 4, (2, 0.5)),
        ({}, {"a": 0}, None, (1, 0)),
    ],
)
def test_jobs_share_the_processors_of_the_cluster(ray, tmp_path, resources, cpus, jobs, expected):
    ray.resources, ray.cpus = resources, cpus
    run_grid(grid(tmp_path), str.upper, on="ray", jobs=jobs)
    _, options = ray.submitted[-1]
    assert (options["num_cpus"], options["num_gpus"]) == expected
    assert options["max_retries"] == 2


def test_a_job_whose_worker_died_has_an_error(ray, tmp_path):
    def run_job(name):
        if name == "bad":
            raise RayError("Out of memory.\nand more")
        return name

    bad, good = run_grid(grid(tmp_path, "bad", "good"), run_job, on="ray").values()
    assert bad.error == "its worker died 3 times (Out of memory.)"
    assert good.value == "good"


def test_an_interrupted_grid_cancels_what_has_not_ended(ray, tmp_path):
    results = run_on_ray(grid(tmp_path, "a", "b", "c"), str.upper, None, None)
    assert next(results) == (str(tmp_path / "runs" / "a"), JobResult("A"))
    results.close()
    assert ray.events[1:] == [("cancel", True), ("cancel", True), ("shutdown",)]


@pytest.mark.parametrize(
    ("found", "family", "words"),
    [
        ((VERSION, False), FileError, r"node b does not see .*runs"),
        (("0.0.0", True), AnyshotError, rf"node b has anyshot 0\.0\.0.*{VERSION}"),
    ],
)
def test_every_living_node_is_inspected(ray, tmp_path, monkeypatch, found, family, words):
    ray.cpus = {"a": 4, "b": 4, "d": 4}
    ray.dying = ("d",)
    markers = []

    def inspect(marker):
        markers.append((marker, marker.exists()))
        return (VERSION, True) if len(markers) == 1 else found

    monkeypatch.setattr(ray_cluster, "_inspect_node", inspect)
    with pytest.raises(family, match=words):
        run_grid(grid(tmp_path), str.upper, on="ray")
    assert len(markers) == 2  # not of the dead nodes
    assert all(exists for _, exists in markers)
    assert [options["num_cpus"] for _, options in ray.submitted] == [0, 0]  # waits for no job
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_node_sees_a_file_or_does_not(tmp_path):
    assert ray_cluster._inspect_node(tmp_path) == (VERSION, True)
    assert ray_cluster._inspect_node(tmp_path / "none") == (VERSION, False)


@pytest.mark.parametrize(("assigned", "shares"), [({"CPU": 2.0}, [1, 4]), ({}, [1, 8])])
def test_a_job_uses_its_share_of_the_nodes_cores(tmp_path, monkeypatch, assigned, shares):
    context = SimpleNamespace(get_assigned_resources=lambda: assigned)
    fake = SimpleNamespace(get_runtime_context=lambda: context)
    limits, tuned = [], []
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.setattr(threads, "limit_cores", limits.append)
    monkeypatch.setattr(threads, "tune_process", lambda: tuned.append(True))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()

    def run_job(job):
        return job, Path.cwd()

    for directory, expected in (("work", tmp_path / "work"), ("missing", tmp_path / "work")):
        folder, where = str(tmp_path / "job"), str(tmp_path / directory)
        result = ray_cluster._run_on_node(run_job, 3, folder, where)
        assert result.value == (3, expected)
    assert limits == [*shares, *shares]
    assert len(tuned) == 2
