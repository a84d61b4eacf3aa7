"""The arrows between the parts of the package never point back, and what is public is explained."""

from __future__ import annotations

import ast
import graphlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import anyshot

ROOT = Path(anyshot.__file__).parent
BASE = {"errors", "files", "scratch", "lists", "progress", "settings", "version"}
# part -> the only parts that it may know, besides itself
MAY_KNOW = {
    "errors": set(),
    "files": {"errors"},
    "scratch": {"errors", "files"},
    "progress": set(),
    "lists": {"errors"},
    "settings": {"errors", "lists"},
    "metrics": {"errors"},
    "images": BASE,
    "network": BASE,
    "bodies": BASE | {"network"},
    "inner": BASE | {"network", "bodies", "parallel"},
}
# part -> parts that it must not know
MUST_NOT_KNOW = {
    "tasks": {"methods", "training", "testing", "report"},
    "methods": {"training", "testing", "warm", "runs", "report"},
    "testing": {"training", "report"},
    "comparison": {"training", "report"},
    "training": {"comparison", "report"},
}


def part(module: str) -> str:
    """anyshot.data.embedded.glyphs -> images"""
    return module.split(".")[1] if "." in module else ""


def imported(path: Path) -> set[str]:
    """Full names of the anyshot modules that a file imports, anywhere in it."""
    package = ["anyshot", *path.relative_to(ROOT).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            found |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return {name for name in found if name.split(".")[0] == "anyshot"}


def arrows() -> dict[str, set[str]]:
    """part -> the other parts that it imports"""
    parts = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    graph: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).parts[0].removesuffix(".py")
        graph.setdefault(name, set()).update({part(module) for module in imported(path)} & parts - {name})
    graph.pop("__init__", None)
    return graph


@pytest.mark.parametrize("name", sorted(MAY_KNOW))
def test_a_low_part_knows_only_what_it_may(name):
    assert arrows().get(name, set()) <= MAY_KNOW[name]


@pytest.mark.parametrize("name", sorted(MUST_NOT_KNOW))
def test_a_part_does_not_know_what_comes_after_it(name):
    assert not arrows().get(name, set()) & MUST_NOT_KNOW[name]


def test_nothing_imports_the_command_line_but_what_starts_it():
    assert [name for name, known in arrows().items() if "cli" in known] == ["__main__"]


def test_only_the_command_that_serves_it_knows_the_page():
    assert [name for name, known in arrows().items() if "web" in known] == ["cli"]


def test_no_arrow_points_back():
    graphlib.TopologicalSorter(arrows()).prepare()  # raises CycleError with the circle


def test_the_command_line_answers_without_loading_anything_heavy():
    heavy = ("torch", "numpy", "scipy", "matplotlib", "PIL")
    code = f"import sys, anyshot.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_explained():
    for name in getattr(anyshot, "__all__", ()):
        public = getattr(anyshot, name)
        if inspect.isclass(public) or inspect.isroutine(public) or inspect.ismodule(public):
            text = inspect.getdoc(public)
            assert text, f"anyshot.{name} has no docstring"
            assert not text.startswith(f"{name}("), f"anyshot.{name} has only a generated docstring"
