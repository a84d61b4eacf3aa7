"""Build the API reference from the docstrings: `make docs` writes it to build/reference."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pdoc

import anyshot

HERE = Path(__file__).parent
OUTPUT = HERE.parents[1] / "build" / "reference"
EXCLUDED = {"cli"}  # anyshot --help documents the commands


def main() -> None:
    """Write one page for the public names and one for each package."""
    for name in anyshot.__all__:  # pdoc looks into vars(anyshot); names appear there on first use
        getattr(anyshot, name)
    parts = [
        part.name for part in pkgutil.iter_modules(anyshot.__path__) if part.name not in EXCLUDED
    ]
    pdoc.render.configure(docformat="numpy", template_directory=HERE, show_source=False)
    modules = ["anyshot", *(f"anyshot.{part}" for part in parts), "!anyshot.core._rich"]
    pdoc.pdoc(*modules, output_directory=OUTPUT)
    print(f"The reference starts at {OUTPUT / 'anyshot.html'}")


if __name__ == "__main__":
    main()
