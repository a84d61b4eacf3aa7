"""The notebooks in examples/ have the code of their pages, and it runs."""

from __future__ import annotations

import importlib.util
import json
import re
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


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_links_of_a_notebook_lead_to_files(name):
    text = (ROOT / "examples" / f"{name}.ipynb").read_text("utf-8")
    links = re.findall(r"\]\((?!\w+:|#)([^)#]+)", text)
    assert links
    assert [link for link in links if not (ROOT / "examples" / link).exists()] == []
