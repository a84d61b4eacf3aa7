from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from anyshot.cli.main import app


def every_command(command, path=()) -> list[tuple[str, ...]]:
    below = [
        line
        for name, one in getattr(command, "commands", {}).items()
        for line in every_command(one, (*path, name))
    ]
    return [path, *below]


COMMANDS = every_command(typer.main.get_command(app))


@pytest.fixture
def help_of(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda command: " ".join(
        CliRunner().invoke(app, [*command, "--help"]).output.replace("│", " ").split()
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_python_type_leaks_into_help(command, help_of):
    assert "--help" in help_of(command)
    assert re.findall(r"<[\w\[\]]+>", help_of(command)) == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_figures_are_pictures_and_never_numbers(command, help_of):
    assert "write the figures" not in help_of(command)
    drawing = {(), ("demo",), ("inspect",), ("reproduce",)}
    assert ("figures" in help_of(command)) == (command in drawing)


def test_an_option_and_a_panel_never_share_a_name(help_of):
    text = help_of(["train"])
    assert "--images,--train" in text
    assert "Settings: train " not in text
    assert "Settings: schedule" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_star_is_taken_for_emphasis(command, help_of):
    assert "/.jpg" not in help_of(command)
