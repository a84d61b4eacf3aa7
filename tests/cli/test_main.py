"""The command line: exit codes, error sentences, Ctrl-C and output streams."""

from __future__ import annotations

import io
import logging
import mmap
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
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
def test_commands_have_long_help_and_an_option_for_json(command, capsys):
    assert run(command, "-h") == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) > 10
    assert "--json" in out


@pytest.mark.parametrize(
    "arguments", [["trian"], ["train"], ["train", "x", "--wya", "3"], ["--nonsense"]]
)
def test_wrong_usage_ends_with_2_and_a_reason_on_standard_error(arguments, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: anyshot" in err


def test_failure_is_one_sentence_on_standard_error(capsys):
    assert run("test", "no/such/run") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("anyshot: ")
    assert "'no/such/run'" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["--debug", "test", "no/such/run"], ["test", "no/such/run", "--debug"]]
)
def test_debug_shows_the_traceback_at_any_position(arguments, capsys):
    assert run(*arguments) == 1
    assert "Traceback" in capsys.readouterr().err


def test_unexpected_error_is_called_a_bug(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", failing(KeyError("omega")))
    assert run("train") == 1
    err = capsys.readouterr().err
    assert err.startswith("anyshot: This is a bug in anyshot: KeyError: 'omega'")
    assert len(err.splitlines()) == 1


def test_expected_error_is_not_called_a_bug(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", failing(AnyshotError("The disk is full.")))
    assert run("train") == 1
    assert capsys.readouterr().err == "anyshot: The disk is full.\n"


def test_ctrl_c_ends_with_130_and_one_sentence():
    code = """
import signal, time, sys
from anyshot.cli import main as cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs without
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
def test_ctrl_c_during_imports_is_one_line(module, arguments, tmp_path):
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


def test_shell_completion_works():
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
def test_empty_argument_is_wrong_usage(arguments, tmp_path, monkeypatch, capsys):
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
    ],
)
def test_error_of_the_operating_system_is_not_called_a_bug(monkeypatch, capsys, error, sentence):
    monkeypatch.setattr(cli, "app", failing(error))
    assert run("train") == 1
    assert capsys.readouterr().err == f"anyshot: {sentence}\n"


@pytest.mark.parametrize(
    "allocate",
    [
        lambda: np.empty(1 << 60, np.uint8),
        lambda: torch.empty(1 << 60, dtype=torch.uint8),
        lambda: [0] * (1 << 60),
        lambda: mmap.mmap(-1, 1 << 60),
    ],
    ids=["numpy", "torch", "list", "mmap"],
)
def test_exhausted_memory_is_not_called_a_bug(monkeypatch, capsys, allocate):
    monkeypatch.setattr(cli, "app", lambda _arguments, prog_name: allocate())
    assert run("train") == 1
    err = capsys.readouterr().err
    assert err.startswith("anyshot: There is not enough memory.")
    assert "--meta-batch" in err
    assert len(err.splitlines()) == 1


def test_errors_and_log_lines_have_no_control_characters(monkeypatch, capsys):
    def app(_arguments, prog_name):
        logging.getLogger("anyshot.somewhere").info("skipped a\x1b[2J.png")
        raise AnyshotError("'b\x1b]0;x\x07.png' is damaged.")

    monkeypatch.setattr(cli, "app", app)
    assert run("train") == 1
    expected = "skipped a\\x1b[2J.png\nanyshot: 'b\\x1b]0;x\\x07.png' is damaged.\n"
    assert capsys.readouterr().err == expected


def test_second_ctrl_c_ends_a_command_that_ignores_the_first():
    code = """
import signal, time
from anyshot.cli import main as cli
signal.signal(signal.SIGINT, signal.default_int_handler)
@cli.app.command()
def stubborn():
    for _ in range(2):
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
cli.main(["stubborn"])
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(2):
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err == "anyshot: Interrupted.\n"


def test_error_caused_by_ctrl_c_is_not_called_a_bug(monkeypatch, capsys):
    def app(_arguments, prog_name):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as in a module whose import was interrupted
            raise RecursionError from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(cli, "app", app)
        assert run("train") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "anyshot: Interrupted.\n"


def test_ignored_ctrl_c_stays_ignored(monkeypatch):
    handlers = []

    def app(_arguments, prog_name):
        handlers.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setattr(cli, "app", app)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cli.main(["test"])
        usual = signal.default_int_handler  # tests in the background start with SIG_IGN
        signal.signal(signal.SIGINT, usual)
        cli.main(["test"])
        assert signal.getsignal(signal.SIGINT) is usual
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers[0] is signal.SIG_IGN
    assert handlers[1] not in (signal.SIG_IGN, usual)


def test_full_disk_behind_standard_output_is_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    code = "from anyshot.__main__ import main; main()"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", code, "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "anyshot: Cannot read or write the output: No space left on device.\n"


def test_ascii_terminal_gets_question_marks_for_other_characters(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(
        cli, "app", lambda _arguments, prog_name: print("79.4 ± 2.9  2–5 ω 雪 \udce9")
    )
    cli.main(["test"])
    assert stream.buffer.getvalue() == b"79.4 ? 2.9  2?5 ? ? ?\n"


def test_log_lines_are_printed_while_the_command_runs(monkeypatch, capsys):
    logger = logging.getLogger("anyshot.somewhere")
    monkeypatch.setattr(cli, "app", lambda _arguments, prog_name: logger.info("%s classes", 3))
    cli.main(["train"])
    logger.info("not printed")
    assert capsys.readouterr().err == "3 classes\n"
