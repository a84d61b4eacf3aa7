"""Fonts for the drawn glyphs and for the text of contact sheets."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def fonts_folder() -> Path:
    """Return the folder of the TrueType fonts that matplotlib ships."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"
