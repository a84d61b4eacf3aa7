from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys

import pytest
from support import run_command as run

from anyshot.cli import main as cli
from anyshot.core.errors import AnyshotError
from anyshot.core.version import VERSION


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


@pytest.mark.parametrize(
    "arguments", [["trian"], ["train"], ["train", "x", "--wya", "3"], ["--nonsense"]]
)
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


@pytest.mark.parametrize(
    "arguments", [["--debug", "test", "no/such/run"], ["test", "no/such/run", "--debug"]]
)
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
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err == "anyshot: Interrupted.\n"


STARTED = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from anyshot.__main__ import main
main()
"""


@pytest.mark.parametrize(("module", "arguments"), [("typer", ["--help"]), ("torch", ["test", "x"])])
def test_ctrl_c_while_modules_are_loaded_is_one_line(module, arguments, tmp_path):
    code = STARTED.replace("MODULE", repr(module))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr == "anyshot: Interrupted.\n"


def test_completion_can_be_shown():
    environment = os.environ | {
        "_ANYSHOT_COMPLETE": "complete_bash",
        "COMP_WORDS": "anyshot tr",
        "COMP_CWORD": "1",
    }
    script = "from anyshot.cli.main import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.split() == ["train"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", ""],
        ["train", "x", "--images", ""],
        ["train", "x", "--json", ""],
        ["test", "x", "--json="],
        ["", ""],
    ],
)
def test_an_empty_argument_is_wrong_usage(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert "An argument is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(28, "No space left on device"),
            "Cannot read or write the output: No space left on device.",
        ),
        (
            PermissionError(13, "Permission denied", "/x/y"),
            "Cannot read or write '/x/y': Permission denied.",
        ),
        (MemoryError(), "There is not enough memory; --workers 1 and smaller tasks take less."),
    ],
)
def test_what_the_system_refuses_is_no_bug_of_anyshot(monkeypatch, capsys, error, sentence):
    monkeypatch.setattr(cli, "app", failing(error))
    assert run("train") == 1
    assert capsys.readouterr().err == f"anyshot: {sentence}\n"


def test_output_that_nobody_can_take_is_a_failure_in_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    code = "from anyshot.__main__ import main; main()"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", code, "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "anyshot: Cannot read or write the output: No space left on device.\n"


def test_a_terminal_that_knows_only_ascii_gets_the_results_all_the_same(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(
        cli, "app", lambda _arguments, prog_name: print("79.4 ± 2.9  2–5 ω 雪 \udce9")
    )
    cli.main(["test"])
    assert stream.buffer.getvalue() == b"79.4 +- 2.9  2-5 omega ? ?\n"


def test_log_lines_are_shown_while_the_command_runs_and_not_after(monkeypatch, capsys):
    logger = logging.getLogger("anyshot.somewhere")
    monkeypatch.setattr(cli, "app", lambda _arguments, prog_name: logger.info("%s classes", 3))
    cli.main(["train"])
    logger.info("nobody listens")
    assert capsys.readouterr().err == "3 classes\n"
