"""The API reference, made of the docstrings: `make docs` writes it to build/reference."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pdoc

import anyshot

HERE = Path(__file__).parent
TO = HERE.parents[1] / "build" / "reference"
APART = {"bench", "cli", "web"}  # commands explain themselves: anyshot --help


def main() -> None:
    """One page for the public names, one for each part of the package."""
    vars(anyshot).update(
        {name: getattr(anyshot, name) for name in anyshot.__all__}
    )  # loaded on first use otherwise
    parts = [part.name for part in pkgutil.iter_modules(anyshot.__path__) if part.name not in APART]
    pdoc.render.configure(template_directory=HERE, show_source=False)
    pdoc.pdoc("anyshot", *(f"anyshot.{part}" for part in parts), output_directory=TO)
    print(f"The reference begins at {TO / 'anyshot.html'}")


if __name__ == "__main__":
    main()
