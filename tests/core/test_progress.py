"""Progress: bars on terminals, lines elsewhere."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest
from rich.console import Console

from anyshot.core import progress as module
from anyshot.core.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_lines_are_printed_at_intervals_and_at_the_end(clock, capsys):
    with progress("Training", 100) as advance:
        for _ in range(40):
            clock[0] += 1.0
            advance(note="loss 1.2")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Training: 15/100, 1:25 left, loss 1.2",
        "Training: 30/100, 1:10 left, loss 1.2",
        "Training: 40/100, 0:40 in total, loss 1.2",
    ]


def test_steps_are_counted_without_a_total(clock, capsys):
    with progress("Reading [x]", None) as advance:
        clock[0] += 4000
        advance(3)
    assert capsys.readouterr().err.splitlines() == [
        "Reading [x]: 3",
        "Reading [x]: 3, 1:06:40 in total",
    ]


def test_last_line_is_printed_when_the_work_fails(capsys):
    with pytest.raises(RuntimeError), progress("Working", 2) as advance:
        advance()
        raise RuntimeError
    assert capsys.readouterr().err.startswith("Working: 1/2, ")


def test_terminal_shows_a_bar_with_the_last_note():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress("Training", 4, console=console) as advance:
        advance(2, note="accuracy [71 %]")
        advance(2)
    text = console.file.getvalue()
    assert "4/4" in text
    assert "accuracy [71 %]" in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_count_and_note_are_complete_on_narrow_terminals(width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with progress("Meta-training taml", 100, console=console) as advance:
        advance(100, note="loss 1.295  KL 27.8  accuracy 47.3%  10.1 tasks/s")
    words = console.file.getvalue().split()
    for word in ("taml", "100/100", "1.295", "47.3%", "10.1"):
        assert word in words


def test_nested_work_adds_a_bar_and_removes_it():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress("Training", 2, console=console) as advance:
        for _ in range(2):
            with progress("Validating", 5, console=console) as inner:
                inner(5)
                assert len(module._displays[0].tasks) == 2
            assert len(module._displays[0].tasks) == 1
            advance()
    assert module._displays == []
    assert "2/2" in console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_threads_can_advance_at_once(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress("Working", 4000, console=console) as advance:
        threads = [
            threading.Thread(target=lambda: [advance() for _ in range(1000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "4000/4000" in console.file.getvalue()


def test_earlier_steps_do_not_count_for_the_remaining_time(monkeypatch):
    clock = iter([0.0, 20.0, 20.0, 20.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    text = io.StringIO()
    with module.progress("Resuming", 50_000, done=40_000, console=Console(file=text)) as advance:
        advance(10)  # 2 s each, 9,990 to go
    assert "40010/50000, 5:33:00 left" in text.getvalue()


def test_imports_leave_the_global_random_generator_alone():
    code = """
import random
random.seed(1)
state = random.getstate()
import anyshot.evaluation.report.tables, anyshot.training.meta_training
assert random.getstate() == state
"""
    subprocess.run([sys.executable, "-c", code], check=True)
