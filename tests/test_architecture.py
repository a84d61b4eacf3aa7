"""Imports follow one order of packages, files stay small, and public names are documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anyshot

ROOT = Path(anyshot.__file__).parent
# A package may import those before it, never those after it.
ORDER = (
    "core",
    "data",
    "models",
    "inner_loop",
    "methods",
    "runs",
    "evaluation",
    "training",
    "classifier",
    "experiments",
    "cli",
)
# Inside a package: a sub-package may import those before it, never those after it.
ORDER_INSIDE = {
    "evaluation": ("metrics", "report"),
    "classifier": ("backbones", "heads", "confidence", "meta_training", "web"),
}
# Packages that must not import each other although the order would allow it.
FORBIDDEN = {
    ("data", "models"), ("classifier.heads", "classifier.backbones"), ("experiments", "classifier"),
    ("classifier", "training"), ("classifier", "inner_loop"),
}  # fmt: skip
#: only these may import the engine's internals
ENGINE_USERS = ("inner_loop", "experiments.engine_benchmark")


def module_name(path: Path) -> str:
    """anyshot/data/tasks.py -> data.tasks"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path: Path) -> set[str]:
    """Modules below anyshot that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("anyshot.") for name in found if name.startswith("anyshot.")}


def edges() -> list[tuple[str, str]]:
    """(module, imported module) of the whole package; the package's public list is no module."""
    return [
        (module_name(path), target)
        for path in sorted(ROOT.rglob("*.py"))
        if module_name(path) not in {"", "__main__"}
        for target in imports_of(path)
    ]


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_every_package_is_in_the_order():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(ORDER)


def test_init_files_define_no_functions_or_classes():
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    wrong = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("__init__.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, definitions)
    ]
    assert wrong == []


def test_packages_import_only_those_before_them():
    position = {name: number for number, name in enumerate(ORDER)}
    wrong = [
        (module, target)
        for module, target in edges()
        if target.split(".")[0] in position
        and position[target.split(".")[0]] > position[module.split(".")[0]]
    ]
    assert wrong == []


def test_the_table_of_imports_names_all_of_them():
    page = (ROOT.parent / "docs" / "architecture.md").read_text("utf-8")
    table = dict(re.findall(r"^\| (\w+) \| (.+) \|$", page, re.M))
    assert [name for name in table if name in ORDER] == list(ORDER)
    for module, target in edges():
        package, other = module.split(".")[0], target.split(".")[0]
        if other in ORDER and other != package:
            assert re.search(rf"\b{other}\b|all of them", table[package]), (module, target)


@pytest.mark.parametrize("package", sorted(ORDER_INSIDE))
def test_sub_packages_import_only_those_before_them(package):
    names = [f"{package}.{name}" for name in ORDER_INSIDE[package]]
    wrong = [
        (module, target)
        for number, early in enumerate(names)
        for late in names[number + 1 :]
        for module, target in edges()
        if within(module, early) and within(target, late)
    ]
    assert wrong == []


@pytest.mark.parametrize(("package", "other"), sorted(FORBIDDEN))
def test_packages_that_stay_apart(package, other):
    assert [(m, t) for m, t in edges() if within(m, package) and within(t, other)] == []


def test_only_the_inner_loop_and_its_benchmark_import_the_engine():
    users = {m for m, t in edges() if within(t, "inner_loop.engine")}
    assert [m for m in users if not any(within(m, user) for user in ENGINE_USERS)] == []


def test_only_the_classifiers_reports_import_evaluation():
    users = {m for m, t in edges() if within(m, "classifier") and within(t, "evaluation")}
    assert users == {"classifier.folder_report", "classifier.folder_pages"}


def test_only_the_serve_command_imports_the_page():
    users = {m for m, t in edges() if within(t, "classifier.web")}
    assert {m for m in users if not within(m, "classifier.web")} == {"cli.serve"}


def heavy_modules_after(statement: str) -> str:
    """Heavy modules that a fresh Python has loaded after a statement, as a list in text."""
    heavy = ("torch", "numpy", "scipy", "matplotlib", "PIL")
    code = f"import sys; {statement}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_command_line_loads_nothing_heavy():
    assert heavy_modules_after("import anyshot.cli.main") == "[]"


def test_the_package_has_at_most_fourteen_entries():
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 14, sorted(entries)


def test_files_and_functions_are_short():
    """At most 350 lines a file and 60 a function, its docstring not counted."""
    too_long = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lengths = {"the file": (len(text.splitlines()), 350)}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                first = node.body[0]
                docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
                lengths[node.name] = (node.end_lineno - node.lineno + 1 - docstring, 60)
        too_long += [(path.name, name) for name, (lines, most) in lengths.items() if lines > most]
    assert too_long == []


def test_type_checkers_and_python_see_the_same_public_names():
    tree = ast.parse(Path(anyshot.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names}
    assert sorted(names) == anyshot.__all__
    for name, (module, original) in names.items():
        assert name == original
        assert getattr(importlib.import_module(module), name) is getattr(anyshot, name)


def test_importing_anyshot_loads_nothing_heavy():
    assert heavy_modules_after("import anyshot") == "[]"


def test_every_public_name_is_documented():
    for name in anyshot.__all__:
        public = getattr(anyshot, name)
        if inspect.isclass(public) or inspect.isroutine(public) or inspect.ismodule(public):
            text = inspect.getdoc(public)
            assert text, f"anyshot.{name} has no docstring"
            assert not text.startswith(f"{name}("), f"anyshot.{name} has only a generated docstring"
