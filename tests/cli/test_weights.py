"""Weights by name are used wherever a run's folder is."""

from __future__ import annotations

import json

import pytest
import torch
from support import assert_equal
from support import run_command as run

import anyshot
from anyshot.classifier.weights import open_weights
from anyshot.core.errors import AnyshotError
from anyshot.runs import pretrained
from anyshot.runs.run import Run


@pytest.fixture
def mine(trained, tmp_path, monkeypatch):
    """The weights of a run, as if they came with the package by the name of mine."""
    monkeypatch.setattr(pretrained, "HOME", tmp_path / "weights")
    assert run("weights", "pack", trained["taml"], pretrained.HOME / "mine") == 0
    (pretrained.HOME / "mine" / "README.md").write_text("# Of a test")
    return trained["taml"]


def test_packed_weights_equal_their_run(mine):
    assert sorted(file.name for file in (pretrained.HOME / "mine").iterdir()) == [
        "README.md", "best.safetensors", "config.json",
    ]  # fmt: skip
    loaded = anyshot.load("mine")
    assert_equal(dict(loaded.state_dict()), dict(Run(mine).load_method().state_dict()))
    assert Run("mine").settings == Run(mine).settings == Run(pretrained.HOME / "mine").settings


def test_test_and_inspect_take_weights_by_name(mine, tmp_path):
    for name, folder in {"named": "mine", "trained": mine}.items():
        assert run("test", folder, "--tasks", 3, "--json", tmp_path / name) == 0
    named, trained = (
        json.loads((tmp_path / name).read_text())["results"][0] for name in ("named", "trained")
    )
    assert named["accuracy"] == trained["accuracy"]
    assert named["run"] == "mine"
    assert run("inspect", "mine", "--tasks", 2, "--figures", tmp_path / "figures") == 0


def test_a_folder_of_that_name_comes_first(mine, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained["maml"].parent)
    Run(mine).export(pretrained.HOME / "maml")
    assert Run("maml").settings.method.name == "maml"


def test_weights_are_listed_and_their_card_is_shown(mine, capsys):
    assert run("weights") == 0
    assert "mine" in capsys.readouterr().out
    assert run("weights", "show", "mine") == 0
    assert "# Of a test" in capsys.readouterr().out
    assert run("weights", "show", "nine") == 1
    assert "There are no weights 'nine'; did you mean 'mine'?" in capsys.readouterr().err


def test_an_unknown_name_lists_the_known_ones(mine):
    with pytest.raises(AnyshotError, match=r"other.*mine"):
        Run("other")


def test_a_trained_method_cannot_be_the_classifiers_weights(mine):
    with pytest.raises(AnyshotError, match="conv4:mine"):
        open_weights("mine")


@pytest.mark.parametrize("name", pretrained.pretrained_models())
def test_shipped_weights_are_small_documented_and_work(name):
    folder = pretrained.HOME / name
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
    assert str(Run(name).info["command"]) in (folder / "README.md").read_text(encoding="utf-8")
    way, rng = 3, torch.Generator().manual_seed(0)
    support = torch.rand(way * 2, 3, *Run(name).image_size, generator=rng)
    predictor = anyshot.load(name).adapt(support, torch.arange(way).repeat(2), prediction="naive")
    probabilities = predictor(support)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(support)))


def test_trained_methods_come_with_anyshot():
    assert {"cifar-fs", "glyphs", "multi"} <= set(pretrained.pretrained_models())
