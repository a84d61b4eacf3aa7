"""Grids on a real Ray: two nodes on this machine, one of which dies; what is said where there is none."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
import units

from anyshot.core.errors import AnyshotError
from anyshot.core.version import VERSION
from anyshot.experiments.launch import ray_cluster, run_grid


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        AnyshotError, match=r"Ray is not installed; run: pip install 'anyshot\[cluster\]'"
    ):
        run_grid({str(tmp_path / "a"): tmp_path}, units.say, on="ray")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A cluster of two nodes with one processor each."""
    ray = pytest.importorskip("ray", reason="the extra cluster is not installed")
    from ray.cluster_utils import Cluster

    patch = pytest.MonkeyPatch()
    places = [
        str(Path(units.__file__).parent),
        str(Path(__file__).parents[3]),
        os.environ.get("PYTHONPATH", ""),
    ]
    patch.setenv("PYTHONPATH", os.pathsep.join(places))
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    started.second = started.add_node(num_cpus=1)
    yield started
    ray.shutdown()
    started.shutdown()
    patch.undo()


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_grid_survives_the_death_of_a_node(nodes, tmp_path):
    wanted = {str(tmp_path / name): tmp_path / name for name in ("a", "b", "c")}
    (tmp_path / "doomed").write_text(nodes.second.node_id)

    def kill() -> None:
        while sum((path / "begun").exists() for path in wanted.values()) < 2:
            time.sleep(0.05)
        nodes.remove_node(nodes.second, allow_graceful=False)
        (tmp_path / "killed").touch()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    found = run_grid(wanted, units.outlive, on="ray", address=nodes.address)
    thread.join()
    assert sorted(outcome.value for outcome in found.values()) == [1, 1, 2]


@pytest.mark.filterwarnings("ignore")
def test_failures_and_folders_that_a_node_does_not_see_are_named(nodes, tmp_path, monkeypatch):
    wanted = {str(tmp_path / name): tmp_path / name for name in ("bad", "good")}
    bad, good = run_grid(wanted, units.fail, on="ray", address=nodes.address).values()
    assert (bad.error, good.value) == ("There is nothing to learn from.", "good")
    monkeypatch.setattr(ray_cluster, "_seen", units.blind)
    with pytest.raises(AnyshotError, match="does not see the folder"):
        run_grid(wanted, units.fail, on="ray", address=nodes.address)
    monkeypatch.setattr(ray_cluster, "_seen", units.outdated)
    with pytest.raises(AnyshotError, match=f"has anyshot 0.0.0, but this is {VERSION}"):
        run_grid(wanted, units.fail, on="ray", address=nodes.address)


@pytest.mark.filterwarnings("ignore")
def test_an_address_where_nobody_is_gets_a_sentence(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(AnyshotError, match=r"There is no Ray cluster at '127.0.0.1:1'"):
        run_grid({str(tmp_path / "a"): tmp_path}, units.say, on="ray", address="127.0.0.1:1")
