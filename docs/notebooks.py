"""Makes the notebooks of examples/ from docs/tutorial.md and docs/photos.md.

    python docs/notebooks.py

Text becomes Markdown cells, Python blocks become code cells. The code runs; what it prints is
stored in the notebook, and in the page as a text block after the code.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"tutorial": "docs/tutorial.md", "photos": "docs/photos.md"}
CODE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.S)  # and its output
LINK = re.compile(r"\]\((?!\w+:|#|\.\.)([^)]+)\)")  # to a page next to this one


def cells_of(page: str) -> list[dict[str, Any]]:
    """The cells of a notebook, without output, from the text of a Markdown page."""
    cells = []
    for number, part in enumerate(CODE.split(page)):
        text = part.strip("\n")
        if not text:
            continue
        if number % 2 == 0:
            text = LINK.sub(r"](../docs/\1)", text)
        cell: dict[str, Any] = {"metadata": {}, "source": text.splitlines(keepends=True)}
        if number % 2:
            cells.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
        else:
            cells.append({"cell_type": "markdown", **cell})
    return cells


def run(cells: list[dict[str, Any]]) -> None:
    """Run the code cells in one namespace and an empty folder; store what they print."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for count, cell in enumerate((c for c in cells if c["cell_type"] == "code"), start=1):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec("".join(cell["source"]), namespace)
                cell["execution_count"] = count
                lines = printed.getvalue().splitlines(keepends=True)
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}]
        finally:
            os.chdir(home)


def with_outputs(page: str, cells: list[dict[str, Any]]) -> str:
    """The page with the cells' printed output after each code block."""
    outputs = iter([cell["outputs"][0]["text"] for cell in cells if cell["cell_type"] == "code"])

    def block(match: re.Match[str]) -> str:
        printed = "".join(next(outputs))
        shown = f"\n```text\n{printed}```\n" if printed else ""
        return f"```python\n{match[1]}```\n{shown}"

    return CODE.sub(block, page)


def main() -> None:
    """Write both notebooks and the output blocks of both pages."""
    for name, path in PAGES.items():
        page = (ROOT / path).read_text(encoding="utf-8")
        cells = cells_of(page)
        run(cells)
        (ROOT / path).write_text(with_outputs(page, cells), encoding="utf-8")
        for number, cell in enumerate(cells):
            cell["id"] = f"{name}-{number}"
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook = {
            "cells": cells,
            "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        target = ROOT / "examples" / f"{name}.ipynb"
        target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
