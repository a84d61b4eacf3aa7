"""Any number of ranks gives the same bits, and failures end with one clear message."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import rank_work
import torch
from support import make_imageset
from torch.distributed import HashStore

from anyshot.cli.main import app, main
from anyshot.core.errors import AnyshotError
from anyshot.core.files import read_json
from anyshot.core.parallel import collectives, device, ranks
from anyshot.runs.checkpoint import CheckpointFolder
from anyshot.runs.run import Run

HERE = Path(__file__).parents[2] / "helpers"
KINDS = ("iteration", "validation", "epoch", "check")  # not how the ranks worked


def torchrun(count: int, *arguments: object, restarts: int = 0, **options) -> subprocess.Popen:
    places = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    command = [
        "torchrun",
        "--standalone",
        f"--nproc-per-node={count}",
        f"--max-restarts={restarts}",
    ]
    launch = [sys.executable, "-m", "torch.distributed.run", *command[1:], *map(str, arguments)]
    return subprocess.Popen(
        launch, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finished(process: subprocess.Popen, timeout: float = 240) -> str:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out + err


def same(a: Run, b: Run) -> None:
    for x, y in ((a.best(), b.best()), (a.latest_checkpoint(), b.latest_checkpoint())):
        assert x.tensors.keys() == y.tensors.keys()
        assert all(torch.equal(x.tensors[key], y.tensors[key]) for key in x.tensors)
    records = [[record for record in run.records() if record["kind"] in KINDS] for run in (a, b)]
    assert records[0] == records[1]


@pytest.mark.parametrize(
    ("counts", "iterations"), [((3,), 8), pytest.param((3, 2), 20, marks=pytest.mark.slow)]
)
def test_any_number_of_ranks_gives_the_same_bits(tmp_path, counts, iterations):
    shared, one = tmp_path / "shared", tmp_path / "1"
    for count, part in zip(counts, (4, 12), strict=False):
        finished(
            torchrun(count, HERE / "rank_work.py", tmp_path / str(count), iterations, shared, part)
        )
    rank_work.work(one, iterations, shared, iterations)
    for count in counts:
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
        with contextlib.suppress(OSError):  # it may have ended
            if (
                f"\0RANK={rank}\0".encode()
                in b"\0" + Path(f"/proc/{child}/environ").read_bytes() + b"\0"
            ):
                return int(child)
    return None


def reached(folder: Path) -> int:
    """The iteration of the newest checkpoint."""
    paths = CheckpointFolder(folder / "checkpoints").paths()
    return int(paths[-1].stem.rpartition("-")[2]) if paths else 0


def kill_in_the_middle(process: subprocess.Popen, rank: int, folder: Path) -> None:
    """Kill a rank once the run has grown by some iterations."""
    before = reached(folder)
    while reached(folder) < before + 3:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    os.kill(pid_of(process, rank), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in /proc")
def test_killed_rank_ends_all_with_one_sentence(tmp_path):
    images, folder = tmp_path / "images", tmp_path / "run"
    make_imageset().save(images)
    chosen = {
        "images": images,
        "ood": "none",
        "method": "maml",
        "way": 2,
        "shots": "any-shot:1-2",
        "query": 2,
        "steps": 1,
        "test-steps": 1,
        "channels": 4,
        "iterations": 3000,
        "meta-batch": 2,
        "validate-every": 0,
        "decay": "none",
        "validation-tasks": 2,
        "checkpoint-every": 1,
    }
    options = [f"--{name}={value}" for name, value in chosen.items()]
    process = torchrun(
        2, "-m", "anyshot", "train", folder, "--no-tensorboard", *options, restarts=1
    )
    kill_in_the_middle(process, 1, folder)
    killed = pid_of(process, 0)
    while pid_of(process, 0) in (killed, None):
        time.sleep(0.01)
    kill_in_the_middle(process, 0, folder)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    sentences = re.findall(
        r"anyshot: Another rank has ended or cannot be reached.*checkpoint;", err
    )
    assert len(sentences) == 2, err  # one for each death
    assert err.count("Settings from") == 2
    found = list(Run(folder).records("iteration"))
    assert 6 <= len(found) < 3000
    options[options.index("--iterations=3000")] = f"--iterations={len(found)}"
    assert app(["train", str(tmp_path / "alone"), *options], standalone_mode=False) in (None, 0)
    assert list(Run(tmp_path / "alone").records("iteration")) == found


@pytest.mark.slow
def test_error_of_all_ranks_is_printed_once(tmp_path):
    process = torchrun(
        2, "-m", "anyshot", "train", tmp_path / "run", "--images", tmp_path / "nothing", "--way=2"
    )
    _, err = process.communicate(timeout=240)
    assert process.returncode != 0
    assert err.count("anyshot: There is no image set or folder") == 1


def test_torchrun_is_refused_for_other_commands(tmp_path, monkeypatch, capsys):
    for name, value in {
        "TORCHELASTIC_RUN_ID": "x",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "2",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path)])
    assert "torchrun is for train, pretrain, test" in capsys.readouterr().err


def test_restarted_ranks_agree_on_a_new_session():
    store = HashStore()
    for name in range(3):
        store.set(f"anyshot/token/{name}", "of an earlier start")
    with ThreadPoolExecutor(3) as pool:
        starts = [
            list(pool.map(lambda number: ranks._agree_on_session(store, number, 3), (2, 1, 0)))
            for _ in range(2)
        ]
    assert [len(set(names)) for names in starts] == [1, 1]
    assert starts[0] != starts[1]


def test_each_rank_has_its_own_gpu_or_an_error(monkeypatch):
    devices = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device, "local_rank", lambda: (1, 2))
    monkeypatch.setattr(torch, "empty", lambda _, device: devices.append(device) or torch.zeros(0))
    for name in ("auto", "cuda"):
        device.choose_device(name)
    assert devices == ["cuda:1"] * 2
    monkeypatch.setattr(device, "local_rank", lambda: (2, 3))
    with pytest.raises(AnyshotError, match=r"2 GPUs for 3 ranks.*--nproc-per-node 2"):
        device.choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(AnyshotError, match="1 GPUs for 3 ranks"):
        device.choose_device("auto")
    devices.clear()
    for name in ("cpu", "cuda:0"):
        device.choose_device(name)
    assert devices == ["cpu", "cuda:0"]


def test_without_torchrun_there_is_one_rank():
    assert (
        ranks.rank(),
        ranks.local_rank(),
        ranks.world_size(),
        ranks.is_rank_zero(),
        ranks.claims_error_message(),
    ) == (0, (0, 1), 1, True, True)
    assert collectives.map_and_gather(abs, [-1, 2]) == [1, 2]
    assert collectives.broadcast_from_rank_zero(lambda: 3) == 3
    assert ranks.utilisation() == {}


# ---------- one process that acts as a rank
def act_as_rank(monkeypatch, number: int, size: int = 2) -> None:
    values = {"RANK": number, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": size}
    for name, value in {"TORCHELASTIC_RUN_ID": "x", **values}.items():
        monkeypatch.setenv(name, str(value))


def test_ranks_are_those_of_torchrun(monkeypatch):
    act_as_rank(monkeypatch, 3, 4)
    assert (ranks.rank(), ranks.local_rank()) == (3, (3, 4))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    assert (ranks.rank(), ranks.local_rank()) == (0, (0, 1))


def test_statistics_are_those_since_the_last_report(monkeypatch):
    group = ranks.ProcessGroup(1, 2, torch.device("cpu"))
    monkeypatch.setattr(ranks, "_group", group)
    assert ranks.world_size() == 2
    assert ranks.utilisation() == {}
    for busy in ([1.0, 3.0], [4.0, 2.0]):
        group.record_step(busy)
    group.sent = 500
    # Two ranks for 3 + 4 seconds, busy for 10 of 14.
    assert ranks.utilisation() == pytest.approx({"ranks": 2, "idle": 4 / 14, "bytes": 250})
    assert ranks.utilisation() == {}
    group.record_step([1.0, 1.0])
    assert ranks.utilisation() == {"ranks": 2, "idle": 0, "bytes": 0}


@pytest.mark.parametrize("number", [0, 1])
def test_only_rank_zero_writes_and_prints(monkeypatch, capsys, number):
    act_as_rank(monkeypatch, number)
    monkeypatch.setattr(ranks, "_group", ranks.ProcessGroup(number, 2, torch.device("cpu")))
    written = []
    ranks.rank_zero_only(written.append)("a")
    with ranks.on_rank_zero(contextlib.nullcontext("zero")) as context:
        assert context == (None if number else "zero")
    with ranks.local_only():
        assert ranks.current_group() is None
        ranks.rank_zero_only(written.append)("alone")
    assert ranks.current_group().rank == number
    with ranks.only_rank_zero_prints():
        print("out")
        print("err", file=sys.stderr)
    assert written == (["alone"] if number else ["a", "alone"])
    assert tuple(capsys.readouterr()) == (("", "") if number else ("out\n", "err\n"))


class LostStore:
    """The store of a machine that cannot be reached."""

    def add(self, key, value):
        raise RuntimeError("Broken pipe")


def test_the_first_rank_with_an_error_prints_it(monkeypatch):
    handlers = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(ranks, "_store", HashStore())
    assert [ranks.claims_error_message() for _ in range(3)] == [True, False, False]
    assert handlers == {signal.SIGTERM: signal.SIG_IGN}
    monkeypatch.setattr(ranks, "_store", LostStore())
    assert ranks.claims_error_message()
    monkeypatch.setattr(ranks, "_store", None)
    slept = []
    monkeypatch.setattr(ranks.time, "sleep", slept.append)
    for number in (0, 1):
        act_as_rank(monkeypatch, number)
        assert ranks.claims_error_message()
    assert slept == [0, ranks.GRACE]


def test_a_group_exists_during_its_block(monkeypatch):
    handlers = {}
    limits = []
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(ranks, "limit_cores", limits.append)
    monkeypatch.setattr(ranks, "_store", None)
    act_as_rank(monkeypatch, 0, 1)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "WORLD_SIZE": "1"}
    for name, value in address.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    with ranks.process_group(torch.device("cpu")):
        group = ranks.current_group()
        assert (group.rank, group.size, group.device.type) == (0, 1, "cpu")
        assert torch.distributed.get_backend() == "gloo"
        with ranks.process_group(torch.device("cpu")):
            assert ranks.current_group() is group
    assert ranks.current_group() is None
    assert not torch.distributed.is_initialized()
    assert limits == [1]
    assert list(handlers) == [signal.SIGTERM]


@pytest.mark.parametrize("claimed", [True, False])
def test_a_terminated_rank_ends_with_one_sentence(monkeypatch, claimed):
    calls = []
    monkeypatch.setattr(ranks, "claims_error_message", lambda: claimed)
    monkeypatch.setattr(os, "write", lambda file, text: calls.append((file, text[:12])))
    monkeypatch.setattr(os, "_exit", calls.append)
    ranks._end_after_loss(signal.SIGTERM, None)
    assert calls == ([(2, b"anyshot: Ano")] if claimed else []) + [1]
