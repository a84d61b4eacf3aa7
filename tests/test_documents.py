"""The documents: commands, public names, formulas and links in them exist; versions agree."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

import anyshot
from anyshot.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "results").glob("*.md")]
)

SOURCES = [
    path.as_posix()
    for folder in ("anyshot", "benchmarks", "docs", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
]


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page that are in one of the languages."""
    return re.findall(
        rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text("utf-8"), re.M | re.S
    )


def commands(page: Path) -> list[list[str]]:
    """The arguments of each anyshot command in the shell blocks of a page."""
    lines = "\n".join(blocks(page, "sh", "console")).replace("\\\n", " ").splitlines()
    words = (shlex.split(line.removeprefix("$ "), comments=True) for line in lines)
    return [line[1:] for line in words if line[:1] == ["anyshot"]]


def parse(words: list[str]) -> None:
    """Parse the arguments without running the command."""
    command = typer.main.get_command(app)
    context = typer.Context(command)
    while hasattr(command, "get_command"):
        command, words = command.get_command(context, words[0]), words[1:]
        assert command, "there is no such command"
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_can_be_parsed(page):
    for words in commands(page):
        if not any(re.search(r"[\w.]:[A-Za-z]", word) for word in words):  # FILE.py:NAME
            parse(words)


def test_commands_are_found_and_wrong_options_are_errors():
    assert len(commands(ROOT / "README.md")) >= 5
    with pytest.raises(Exception, match="--no-such-option"):
        parse(["data", "list", "--no-such-option"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_public_name_exists(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "anyshot"
            ):
                assert hasattr(anyshot, node.attr), node.attr
            if isinstance(node, ast.ImportFrom) and node.module == "anyshot":
                assert all(hasattr(anyshot, alias.name) for alias in node.names)


def test_every_function_in_the_table_of_formulas_exists():
    rows = re.findall(r"^\|.*\|(.*\.py`.*)\|$", (ROOT / "docs/method.md").read_text("utf-8"), re.M)
    assert len(rows) > 15
    for location in (location for row in rows for location in row.split(";")):
        file, *names = re.findall(r"`([^`]+)`", location)
        text = (ROOT / "anyshot" / file).read_text("utf-8")
        for name in names:
            assert re.search(rf"(def|class) {name.split('.')[-1]}\b", text), f"{name} in {file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_source_file_of_the_repository_exists(page):
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for file in re.findall(r"`((?!src/)[a-z][\w./]*/[\w.]+\.py)`", text):  # src/: of other projects
        assert any(path.endswith(f"/{file}") for path in SOURCES) or "NAME" in file, file


def test_the_citation_has_the_version_of_the_package():
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text()
