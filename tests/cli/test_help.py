"""The help of all commands."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from anyshot.cli.main import app


def every_command(command, path=()) -> list[tuple[str, ...]]:
    commands = getattr(command, "commands", {}).items()
    return [path, *(line for name, one in commands for line in every_command(one, (*path, name)))]


COMMANDS = every_command(typer.main.get_command(app))


@pytest.fixture
def help_of(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda command: " ".join(
        CliRunner().invoke(app, [*command, "--help"]).output.replace("│", " ").split()
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_no_python_types(command, help_of):
    assert "--help" in help_of(command)
    assert re.findall(r"<[\w\[\]]+>", help_of(command)) == []


def test_option_and_panel_have_different_names(help_of):
    text = help_of(["train"])
    assert "--images,--train" in text
    assert "Common settings" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_stars_are_not_read_as_emphasis(command, help_of):
    assert "/.jpg" not in help_of(command)


def test_commands_for_photos_come_first(help_of):
    text = help_of([])
    assert text.index("Your own photos") < text.index("serve") < text.index("Research on")
