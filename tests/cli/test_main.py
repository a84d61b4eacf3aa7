from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from anyshot import cli
from anyshot.errors import AnyshotError
from anyshot.version import VERSION


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return end.value.code or 0


def failing(error: BaseException):
    def app(_arguments, prog_name):
        raise error

    return app


def test_help_and_version_succeed(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"anyshot {VERSION}\n"
    assert run("--help") == 0
    out = capsys.readouterr().out
    for command in ("demo", "train", "test", "inspect", "data"):
        assert command in out


@pytest.mark.parametrize("command", ["demo", "train", "test", "inspect"])
def test_every_command_has_help_with_an_example_or_a_story(command, capsys):
    assert run(command, "-h") == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) > 10
    assert "--json" in out


@pytest.mark.parametrize("arguments", [["trian"], ["train"], ["train", "x", "--wya", "3"], ["--nonsense"]])
def test_wrong_usage_ends_with_2_and_says_why_on_standard_error(arguments, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: anyshot" in err


def test_a_failure_is_one_sentence_on_standard_error(capsys):
    assert run("test", "no/such/run") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("anyshot: There is no run in 'no/such/run'")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--debug", "test", "no/such/run"], ["test", "no/such/run", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(arguments, capsys):
    assert run(*arguments) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_is_named_as_such_without_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", failing(KeyError("omega")))
    assert run("train") == 1
    err = capsys.readouterr().err
    assert err.startswith("anyshot: This is a bug in anyshot: KeyError: 'omega'")
    assert len(err.splitlines()) == 1


def test_an_expected_failure_is_not_called_a_bug(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", failing(AnyshotError("The disk is full.")))
    assert run("train") == 1
    assert capsys.readouterr().err == "anyshot: The disk is full.\n"


def test_ctrl_c_ends_with_130_and_one_sentence():
    code = """
import signal, time, sys
from anyshot import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control starts its jobs deaf to Ctrl-C
@cli.app.command()
def wait():
    print("ready", flush=True)
    time.sleep(60)
cli.main(["wait"])
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err.startswith("anyshot: Interrupted.")
    assert len(err.splitlines()) == 1


def test_completion_can_be_shown():
    environment = os.environ | {"_ANYSHOT_COMPLETE": "complete_bash", "COMP_WORDS": "anyshot tr", "COMP_CWORD": "1"}
    script = "from anyshot.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["train"]
