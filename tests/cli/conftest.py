from __future__ import annotations

import numpy as np
import pytest

from anyshot.data import ImageSet


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> str:
    """The folder of an image set whose classes differ in their colour."""
    rng = np.random.default_rng(0)
    classes = {}
    for c in range(12):
        base = rng.integers(0, 200, 3)
        classes[f"class {c}"] = (base + rng.integers(0, 50, (20, 32, 32, 3))).astype(np.uint8)
    names = list(classes)
    splits = {"train": names[:4], "validation": names[4:8], "test": names[8:]}
    folder = tmp_path_factory.mktemp("images") / "tiny"
    ImageSet.from_arrays("tiny", classes, splits).save(folder)
    return str(folder)


@pytest.fixture(scope="session")
def short() -> list[str]:
    """Options that make a run take a second."""
    chosen = {
        "ood": "none", "way": 2, "shots": "any-shot:1-5", "query": 3, "steps": 1, "test-steps": 1,
        "iterations": 4, "meta-batch": 2, "validate-every": 2, "validation-tasks": 3,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in chosen.items()]


@pytest.fixture(scope="session")
def trained(tiny, short, tmp_path_factory):
    """Folders of two runs, {method: folder}."""
    from anyshot.cli.main import app

    folder = tmp_path_factory.mktemp("runs")
    for method in ("taml", "maml"):
        samples = ["--samples=2"] if method == "taml" else []
        arguments = ["train", str(folder / method), "--images", tiny, "--method", method]
        arguments += [*short, *samples]
        assert app(arguments, standalone_mode=False) in (None, 0)
    return {method: folder / method for method in ("taml", "maml")}
