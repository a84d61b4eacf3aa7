"""Grids of units on processes: shared cores, deaths, failures, Ctrl-C, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import units

from anyshot.core.parallel.threads import cores
from anyshot.experiments.launch import progress as watch
from anyshot.experiments.launch import run_grid, show_progress


def grid(tmp_path: Path, *names: str) -> dict[str, Path]:
    return {str(tmp_path / name): tmp_path / name for name in names}


def test_one_job_is_done_here_and_several_in_processes_that_share_the_cores(tmp_path, capsys):
    wanted = grid(tmp_path, "a", "b")
    found = run_grid(wanted, units.say)
    assert [outcome.value for outcome in found.values()] == [
        (name, os.getpid(), cores()) for name in "ab"
    ]
    assert "This is a." in capsys.readouterr().out
    found = run_grid(wanted, units.say, jobs=2)
    assert list(found) == list(wanted)
    assert all(outcome.value[1] != os.getpid() for outcome in found.values())
    assert {outcome.value[2] for outcome in found.values()} == {max(1, cores() // 2)}
    assert capsys.readouterr().out == ""
    assert (tmp_path / "a.log").read_text() == "This is a.\nNot so good.\n"


def test_units_that_fail_are_named_after_the_others_were_done_and_a_bug_leaves_its_traceback(
    tmp_path, caplog
):
    for jobs in (1, 2):
        bad, good = run_grid(grid(tmp_path, "bad", "good"), units.fail, jobs=jobs).values()
        assert (bad.error, good.value) == ("There is nothing to learn from.", "good")
        assert f"{tmp_path / 'bad'}: There is nothing to learn from." in caplog.text
        caplog.clear()
    (bug,) = run_grid(grid(tmp_path, "bug"), units.fail, jobs=2).values()
    assert bug.error == f"ZeroDivisionError: division by zero (see '{tmp_path / 'bug.log'}')"
    assert "Traceback" in (tmp_path / "bug.log").read_text()


def test_a_unit_whose_process_was_killed_is_begun_again_but_not_for_ever(tmp_path):
    once, never, always = run_grid(
        grid(tmp_path, "once", "never", "always"), units.die, jobs=2
    ).values()
    assert (once.value, never.value) == (2, 1)
    assert always.error.startswith("its process died 3 times (the last time: killed by SIGKILL)")


def test_an_interrupted_grid_leaves_no_process_and_is_continued_by_the_same_call(tmp_path):
    program = (
        "import signal, sys, units\nfrom pathlib import Path\nfrom anyshot.experiments.launch import run_grid\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "    grid = {f'{sys.argv[1]}/{name}': Path(sys.argv[1]) / name for name in ('quick', 'slow')}\n"
        "    print([outcome.value for outcome in run_grid(grid, units.wait_once, jobs=2).values()])\n"
    )
    (tmp_path / "program.py").write_text(program)
    places = [os.path.dirname(units.__file__), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "slow" / "begun").exists() or not (tmp_path / "quick" / "begun").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt: The same command goes on with what is left." in err
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "slow" / "begun").read_text()), 0)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[2, 2]\n"


def test_progress_is_what_the_units_say_of_themselves_by_how_long_they_take(monkeypatch):
    heard, shares = [], {"a": 0.5, "b": 0.0}

    class Shown:
        def __init__(self, title, total, done):
            heard.append((title, total, done))

        def __enter__(self):
            return lambda n, note: heard.append((n, note))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(watch, "progress", Shown)
    with show_progress(list(shares), "Runs", shares.__getitem__, {"a": 10, "b": 30}.__getitem__):
        shares.update(a=1.0, b=0.1)
    assert heard == [("Runs", 40, 5), (8, "1 of 2 runs")]
