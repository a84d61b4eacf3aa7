from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = sorted(path.stem for path in (Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_script_imports_names_that_exist(name):
    script = importlib.import_module(name)
    for node in ast.walk(ast.parse(Path(script.__file__).read_text(encoding="utf-8"))):
        # also inside functions, which run after hours or never here
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("anyshot"):
            module = importlib.import_module(node.module)
            for imported in (alias.name for alias in node.names):
                assert hasattr(module, imported) or importlib.import_module(
                    f"{node.module}.{imported}"
                )
