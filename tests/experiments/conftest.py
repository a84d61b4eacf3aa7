from __future__ import annotations

import dataclasses

import pytest
from support import make_imageset

from anyshot.experiments import Block, Column, Experiment, Model
from anyshot.experiments.scale import SMOKE


@pytest.fixture(scope="session")
def sets(tmp_path_factory) -> tuple[str, str]:
    """Folders of two image sets of 16×16 pixels: one for training, one for tests only."""
    folder = tmp_path_factory.mktemp("sets")
    for name in ("tiny", "other"):
        make_imageset(name=name).save(folder / name)
    return str(folder / "tiny"), str(folder / "other")


@pytest.fixture(scope="session")
def experiment(sets) -> Experiment:
    """Two trained models, one of them tested in two ways, on two image sets."""
    tiny, other = sets
    return Experiment(
        "mine",
        "Mine",
        models=(
            Model("MAML", "maml"),
            Model("TAML, naive", test={"prediction": "naive"}),
            Model("TAML"),
        ),
        blocks=(Block("cifar-fs-paper", (Column(tiny), Column(other, "fixed:2")), images=(tiny,)),),
    )


@pytest.fixture(scope="session")
def tiny_scale():
    """Runs of less than a second, on the experiment's own images."""
    return dataclasses.replace(SMOKE, data=None)
