"""Ranks that torchrun started, on this machine: the same bits for any number of them, and a clear end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranked
import torch
from support import make_imageset

from anyshot import device, ranks, together
from anyshot.cli import main
from anyshot.errors import AnyshotError
from anyshot.files import read_json
from anyshot.runs import Run

HERE = Path(__file__).parent
KINDS = ("iteration", "validation", "epoch", "check")  # not how the ranks worked


def torchrun(count: int, *arguments: object, restarts: int = 0, **options) -> subprocess.Popen:
    places = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    command = ["torchrun", "--standalone", f"--nproc-per-node={count}", f"--max-restarts={restarts}"]
    launch = [sys.executable, "-m", "torch.distributed.run", *command[1:], *map(str, arguments)]
    return subprocess.Popen(launch, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(process: subprocess.Popen, timeout: float = 240) -> str:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out + err


def same(a: Run, b: Run) -> None:
    for x, y in ((a.best(), b.best()), (a.latest_checkpoint(), b.latest_checkpoint())):
        assert x.tensors.keys() == y.tensors.keys()
        assert all(torch.equal(x.tensors[key], y.tensors[key]) for key in x.tensors)
    kept = [[record for record in run.records() if record["kind"] in KINDS] for run in (a, b)]
    assert kept[0] == kept[1]


def test_one_two_and_three_ranks_make_the_same_runs_tests_and_warm_starts_and_go_on_with_each_others(tmp_path):
    shared = tmp_path / "shared"
    for count, iterations in ((3, 7), (2, 14)):
        finished(torchrun(count, HERE / "ranked.py", tmp_path / str(count), iterations, shared))
    ranked.work(tmp_path / "1", 20, shared)
    one = tmp_path / "1"
    for count in (2, 3):
        for name in ("whole", "warm", "from"):
            same(Run(tmp_path / str(count) / name), Run(one / name))
        assert read_json(tmp_path / str(count) / "test.json") == read_json(one / "test.json")
        reports = list(Run(tmp_path / str(count) / "whole").records("ranks"))
        assert {report["ranks"] for report in reports} == {count}
        assert all(0 <= report["idle"] < 1 and report["bytes"] > 0 for report in reports)
    same(Run(shared), Run(one / "whole"))
    assert not list(Run(one / "whole").records("ranks"))


def pid_of(process: subprocess.Popen, rank: int) -> int | None:
    """The process of a rank that torchrun started and that has begun."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        if f"\0RANK={rank}\0".encode() in b"\0" + Path(f"/proc/{child}/environ").read_bytes() + b"\0":
            return int(child)
    return None


def kill_in_the_middle(process: subprocess.Popen, rank: int, folder: Path) -> None:
    """Kill a rank once the run has grown by some lines."""
    lines = Run(folder).log_lines() if (folder / "run.json").exists() else 0
    while not (folder / "log.jsonl").exists() or Run(folder).log_lines() < lines + 3:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    pid = pid_of(process, rank)
    assert pid
    os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in /proc")
def test_a_killed_rank_ends_all_with_one_sentence_after_the_restarts_that_were_allowed(tmp_path):
    images, folder = tmp_path / "images", tmp_path / "run"
    make_imageset().save(images)
    chosen = {
        "images": images, "ood": "none", "method": "maml", "way": 2, "shots": "any-shot:1-2", "query": 2, "steps": 1,
        "test-steps": 1, "channels": 4, "iterations": 3000, "meta-batch": 2, "validate-every": 0, "decay": "none",
        "validation-tasks": 2, "checkpoint-every": 1,
    }  # fmt: skip
    options = [f"--{name}={value}" for name, value in chosen.items()]
    process = torchrun(2, "-m", "anyshot", "train", folder, "--no-tensorboard", *options, restarts=1)
    kill_in_the_middle(process, 1, folder)
    before = pid_of(process, 0)
    while pid_of(process, 0) in (before, None):
        time.sleep(0.01)
    kill_in_the_middle(process, 0, folder)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    sentences = re.findall(r"anyshot: Another rank has ended or cannot be reached.*checkpoint;", err)
    assert len(sentences) == 2, err  # one for each death
    assert "Settings from" in err
    assert 6 <= Run(folder).latest_checkpoint().state["iteration"] < 3000


def test_an_error_of_all_ranks_is_said_once_and_other_commands_are_refused(tmp_path, monkeypatch, capsys):
    process = torchrun(2, "-m", "anyshot", "train", tmp_path / "run", "--images", tmp_path / "nothing", "--way=2")
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert err.count("anyshot: There is no image set or folder") == 1
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path)])
    assert "torchrun is for train, warm, test; start anyshot inspect without it." in capsys.readouterr().err


def test_each_rank_has_a_gpu_of_its_own_or_a_sentence(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device, "local", lambda: (1, 2))
    monkeypatch.setattr(torch, "empty", lambda _, device: asked.append(device) or torch.zeros(0))
    for name in ("auto", "cuda"):
        device.choose_device(name)
    assert asked == ["cuda:1"] * 2
    monkeypatch.setattr(device, "local", lambda: (2, 3))
    with pytest.raises(AnyshotError, match="2 GPUs for 3 ranks; start torchrun with --nproc-per-node 2"):
        device.choose_device("cuda")


def test_without_torchrun_there_is_one_rank_that_does_everything():
    assert (ranks.rank(), ranks.local(), ranks.count(), ranks.is_first(), ranks.speaks()) == (0, (0, 1), 1, True, True)
    assert together.map_all(abs, [-1, 2]) == [1, 2]
    assert together.from_first(lambda: 3) == 3
    assert ranks.report() == {}
