"""Weights that come with the package, each in a folder of its own.

weights/NAME/config.json       a run's settings and what it learned from, or what a learner on features is for
weights/NAME/*.safetensors     the numbers
weights/NAME/README.md         the model card
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyshot.core.files import read_json

HOME = Path(__file__).parent / "weights"


def pretrained_names() -> list[str]:
    """What comes with the package.

    >>> "photos-lite0" in names()
    True
    """
    return sorted(path.parent.name for path in HOME.glob("*/config.json"))


def pretrained_config(name: str) -> dict[str, Any]:
    """What is known of weights that come with the package."""
    return dict(read_json(HOME / name / "config.json"))


def pretrained_models() -> list[str]:
    """Those that are a trained method, and can be named wherever a run's folder can."""
    return [name for name in pretrained_names() if "settings" in pretrained_config(name)]
