"""Pretrained weights that come with anyshot.

runs/weights/NAME/config.json       settings of a run and its image sets, or what a classifier needs
runs/weights/NAME/*.safetensors     the tensors
runs/weights/NAME/README.md         the model card
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyshot.core.errors import RunError
from anyshot.core.files import read_json

HOME = Path(__file__).parent / "weights"


def pretrained_names() -> list[str]:
    """Return the names of all pretrained weights.

    >>> "photos-lite0" in pretrained_names()
    True
    """
    return sorted(path.parent.name for path in HOME.glob("*/config.json"))


def pretrained_config(name: str) -> dict[str, Any]:
    """Read the description of pretrained weights."""
    path = HOME / name / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise RunError(f"'{path}' holds {type(config).__name__}, not an object; restore it.")
    return config


def pretrained_models() -> list[str]:
    """Return the names of pretrained methods, which can be used in place of a run folder."""
    return [name for name in pretrained_names() if "settings" in pretrained_config(name)]
