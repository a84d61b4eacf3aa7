"""Grids in processes: shared cores, deaths, failures, Ctrl-C, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import grid_jobs
import pytest

from anyshot.core.parallel.threads import cores
from anyshot.experiments.launch import progress as progress_module
from anyshot.experiments.launch import run_grid, show_progress

PROGRAM = """
import signal, sys
from pathlib import Path
import grid_jobs
from anyshot.experiments.launch import run_grid

if __name__ == "__main__":
    # Background jobs of a shell ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    grid = {f"{sys.argv[1]}/{name}": Path(sys.argv[1]) / name for name in ("quick", "slow")}
    print([result.value for result in run_grid(grid, grid_jobs.hang_once, jobs=2).values()])
"""


def folders(tmp_path: Path, *names: str) -> dict[str, Path]:
    return {str(tmp_path / name): tmp_path / name for name in names}


def test_one_job_at_a_time_runs_in_this_process(tmp_path, capsys):
    results = run_grid(folders(tmp_path, "a", "b"), grid_jobs.describe_process)
    assert [result.value for result in results.values()] == [
        (name, os.getpid(), cores()) for name in "ab"
    ]
    assert "This is a." in capsys.readouterr().out


def test_several_jobs_run_in_processes_that_share_the_cores(tmp_path, capsys):
    grid = folders(tmp_path, "a", "b")
    results = run_grid(grid, grid_jobs.describe_process, jobs=2)
    assert list(results) == list(grid)
    assert all(result.value[1] != os.getpid() for result in results.values())
    assert {result.value[2] for result in results.values()} == {max(1, cores() // 2)}
    assert capsys.readouterr().out == ""
    assert (tmp_path / "a.log").read_text() == "This is a.\nNot so good.\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_job_is_logged_and_does_not_stop_the_others(tmp_path, caplog, jobs):
    bad, good = run_grid(folders(tmp_path, "bad", "good"), grid_jobs.fail, jobs=jobs).values()
    assert (bad.error, good.value) == ("There are no images.", "good")
    assert f"{tmp_path / 'bad'}: There are no images." in caplog.text


def test_a_bug_leaves_its_traceback_in_the_log(tmp_path):
    (bug,) = run_grid(folders(tmp_path, "bug"), grid_jobs.fail, jobs=2).values()
    assert bug.error == f"ZeroDivisionError: division by zero (see '{tmp_path / 'bug.log'}')"
    assert "Traceback" in (tmp_path / "bug.log").read_text()


def test_a_killed_job_is_started_three_times_at_most(tmp_path):
    grid = folders(tmp_path, "once", "never", "always")
    once, never, always = run_grid(grid, grid_jobs.die, jobs=2).values()
    assert (once.value, never.value) == (2, 1)
    assert "3 times" in always.error
    assert "SIGKILL" in always.error


def test_an_interrupted_grid_kills_its_processes_and_can_be_continued(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = [os.path.dirname(grid_jobs.__file__), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    started = [tmp_path / name / "started" for name in ("quick", "slow")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not all(file.exists() for file in started):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt: Run the same command again" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(started[1].read_text()), 0)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[2, 2]\n"


def test_progress_weights_jobs_by_their_length(monkeypatch):
    calls = []
    shares = {"a": 0.5, "b": 0.0}

    class FakeProgress:
        def __init__(self, title, total, done):
            calls.append((title, total, done))

        def __enter__(self):
            return lambda n, note: calls.append((n, note))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(progress_module, "progress", FakeProgress)
    with show_progress(list(shares), "Runs", shares.__getitem__, {"a": 10, "b": 30}.__getitem__):
        shares.update(a=1.0, b=0.1)
    assert calls == [("Runs", 40, 5), (8, "1 of 2 runs")]


def test_progress_is_updated_while_jobs_run(monkeypatch):
    updated = threading.Event()

    @contextmanager
    def fake_progress(title, total, done):
        assert total == 1  # the least length of a job
        yield lambda n, note: updated.set()

    monkeypatch.setattr(progress_module, "progress", fake_progress)
    monkeypatch.setattr(progress_module, "INTERVAL", 0.001)
    with show_progress(["a"], "Runs", lambda job: 0.5, lambda job: 0.2):
        assert updated.wait(20)
