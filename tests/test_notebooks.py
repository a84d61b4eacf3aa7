"""The notebooks in examples/ have the code of their pages, and it runs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)


def code(cells: list[dict]) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize(("name", "page"), notebooks.PAGES.items())
def test_notebook_has_the_code_of_its_page_and_runs(name, page):
    stored = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text("utf-8"))["cells"]
    assert code(stored) == code(notebooks.cells_of((ROOT / page).read_text("utf-8")))
    assert all(cell["outputs"] for cell in stored if cell["cell_type"] == "code")
    notebooks.run(stored)
