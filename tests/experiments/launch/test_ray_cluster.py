"""Grids on a real Ray: two nodes on this machine, one of which dies."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import grid_jobs
import pytest

from anyshot.core.errors import AnyshotError, FileError
from anyshot.core.version import VERSION
from anyshot.experiments.launch import ray_cluster, run_grid

LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def test_without_ray_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AnyshotError, match=r"pip install 'anyshot\[cluster\]'"):
        run_grid({str(tmp_path / "a"): tmp_path}, grid_jobs.fail, on="ray")


@pytest.fixture(scope="module")
def importable():
    """Let Ray's workers import anyshot and the jobs of these tests."""
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    patch = pytest.MonkeyPatch()
    paths = [
        str(Path(grid_jobs.__file__).parent),
        str(Path(__file__).parents[3]),
        os.environ.get("PYTHONPATH", ""),
    ]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    yield
    patch.undo()


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_a_cluster_without_address_listens_on_loopback_only(importable, tmp_path):
    grid = {str(tmp_path / "a"): tmp_path / "a"}
    (result,) = run_grid(grid, grid_jobs.listening_addresses, on="ray").values()
    assert result.error == ""
    assert result.value
    assert set(result.value) <= LOOPBACK


@pytest.fixture(scope="module")
def nodes(importable):
    """A cluster of two nodes with one processor each."""
    import ray
    from ray.cluster_utils import Cluster

    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    started.second = started.add_node(num_cpus=1)
    yield started
    ray.shutdown()
    started.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_a_grid_survives_the_death_of_a_node(nodes, tmp_path):
    grid = {str(tmp_path / name): tmp_path / name for name in ("a", "b", "c")}
    (tmp_path / "doomed").write_text(nodes.second.node_id)

    def kill() -> None:
        while sum((path / "started").exists() for path in grid.values()) < 2:
            time.sleep(0.05)
        nodes.remove_node(nodes.second, allow_graceful=False)
        (tmp_path / "killed").touch()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    results = run_grid(grid, grid_jobs.wait_for_kill, on="ray", address=nodes.address)
    thread.join()
    assert sorted(result.value for result in results.values()) == [1, 1, 2]


@pytest.mark.filterwarnings("ignore")
def test_a_failed_job_does_not_stop_the_others(nodes, tmp_path):
    grid = {str(tmp_path / name): tmp_path / name for name in ("bad", "good")}
    bad, good = run_grid(grid, grid_jobs.fail, on="ray", address=nodes.address).values()
    assert (bad.error, good.value) == ("There are no images.", "good")


@pytest.mark.filterwarnings("ignore")
def test_a_node_that_does_not_see_the_folder_is_refused(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_inspect_node", grid_jobs.miss_folder)
    with pytest.raises(FileError, match=tmp_path.name):
        run_grid({str(tmp_path / "a"): tmp_path}, grid_jobs.fail, on="ray", address=nodes.address)


@pytest.mark.filterwarnings("ignore")
def test_a_node_with_another_version_is_refused(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_inspect_node", grid_jobs.have_old_version)
    with pytest.raises(AnyshotError, match=f"0.0.0.*{VERSION}"):
        run_grid({str(tmp_path / "a"): tmp_path}, grid_jobs.fail, on="ray", address=nodes.address)


@pytest.mark.filterwarnings("ignore")
def test_an_address_without_a_cluster_is_an_error(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(AnyshotError, match=r"127.0.0.1:1"):
        run_grid({str(tmp_path / "a"): tmp_path}, grid_jobs.fail, on="ray", address="127.0.0.1:1")
