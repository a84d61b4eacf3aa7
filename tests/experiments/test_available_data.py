from __future__ import annotations

import pytest

from anyshot.core.errors import DataError, SettingsError
from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments import Block, Column, Experiment, FigureSpec, Model, available_data
from anyshot.experiments.available_data import (
    all_sets,
    check_exists,
    keep_available,
    select_columns,
    select_models,
    with_data,
)
from anyshot.experiments.scale import DataChoice


@pytest.fixture
def available(monkeypatch):
    """Choose the image sets that are ready."""

    def only(*names: str) -> None:
        monkeypatch.setattr(available_data, "is_available", lambda images: images in names)

    return only


def column_sets(experiment) -> list[list[str]]:
    return [[column.images for column in block.columns] for block in experiment.blocks]


def test_missing_images_remove_their_columns_with_a_sentence(available):
    available("cifar-fs", "svhn", "miniimagenet")
    ready, (sentence,) = keep_available(EXPERIMENTS["any-shot"])
    assert column_sets(ready) == [["cifar-fs", "svhn"], ["miniimagenet"]]
    assert "anyshot data prepare cub" in sentence


def test_a_block_trains_on_the_sets_that_are_ready(available):
    available("quickdraw", "vgg-flower", "gtsrb", "fashion-mnist")
    ready, sentences = keep_available(EXPERIMENTS["multi-dataset"])
    assert ready.blocks[0].images == ("quickdraw", "vgg-flower")
    assert column_sets(ready) == [["quickdraw", "vgg-flower", "gtsrb", "fashion-mnist"]]
    assert len(sentences) == 1


def test_a_block_without_training_sets_is_removed(available):
    available("cifar-fs", "svhn", "cub")
    ready, _ = keep_available(EXPERIMENTS["any-shot"])
    assert column_sets(ready) == [["cifar-fs", "svhn"]]


def test_a_block_without_columns_keeps_its_figures(available):
    available("cifar-fs")
    ready, _ = keep_available(EXPERIMENTS["ood"])
    assert column_sets(ready) == [[]]
    assert [column.images for column in ready.blocks[0].figures[0].columns] == ["cifar-fs"]


def test_no_images_at_all_are_an_error_with_the_command_to_run(available):
    available()
    with pytest.raises(DataError, match=r"statistics.*anyshot data prepare cifar-fs"):
        keep_available(EXPERIMENTS["statistics"])


def test_selected_columns_are_kept():
    assert column_sets(select_columns(EXPERIMENTS["any-shot"], ["svhn"])) == [["svhn"]]
    with pytest.raises(SettingsError, match=r"'mnist'.*cifar-fs, svhn"):
        select_columns(EXPERIMENTS["any-shot"], ["mnist"])


def test_selected_models_bring_their_variants_and_complete_figures():
    chosen = select_models(EXPERIMENTS["imbalance"], ["RFS", "Bayesian ω-TAML"])
    names = [model.name for model in chosen.models]
    assert names[:2] == ["Bayesian ω-TAML", "RFS"]
    assert "RFS, ROS" in names
    assert all(name.startswith(("RFS", "Bayesian")) for name in names)
    assert chosen.models[0].base == ""  # Meta-SGD was left out
    assert chosen.reference_model == names[-1]
    assert chosen.blocks[0].figures == ()
    with pytest.raises(SettingsError, match="RFS"):
        select_models(EXPERIMENTS["imbalance"], ["RSF"])


def test_all_sets_include_those_of_figures():
    assert all_sets(EXPERIMENTS["initialisation"]) == ["cifar-fs", "svhn"]


def test_other_images_replace_training_sets_and_test_sets():
    moved = with_data(EXPERIMENTS["any-shot"], DataChoice(("mine",), ("one", "two")))
    assert column_sets(moved) == [["mine", "one", "two"]]
    assert moved.blocks[0].images == ("mine",)
    assert not any(column.paper for column in moved.columns)


def test_columns_that_differ_only_in_shots_stay_apart_on_other_images():
    moved = with_data(EXPERIMENTS["class-imbalance"], DataChoice(("mine",)))
    assert [column.label for column in moved.columns] == [
        "mine, fixed:10", "mine, class-imbalance:5-25", "mine, class-imbalance:1-50",
    ]  # fmt: skip
    sizes = with_data(EXPERIMENTS["task-imbalance"], DataChoice(("mine",)))
    assert len(sizes.columns) == 8


def test_blocks_of_figures_only_are_moved_once():
    (block,) = with_data(EXPERIMENTS["initialisation"], DataChoice(("mine",), ("other",))).blocks
    assert [column.label for column in block.figures[0].columns] == [
        "mine, fixed:50",
        "other, fixed:50",
    ]
    assert len(with_data(EXPERIMENTS["ood"], DataChoice(("mine",), ("other",))).blocks) == 1


def test_blocks_of_figures_only_are_dropped_on_other_images_if_others_have_columns():
    models = (Model("TAML"),)
    spec = FigureSpec("omega", "E[ω]", ("TAML",), (Column("svhn"),))
    figures_only = Block("cifar-fs-paper", shots="fixed:5", figures=(spec,))
    table = Block("cifar-fs-paper", (Column("svhn"),))
    moved = with_data(Experiment("x", "x", models, (figures_only, table)), DataChoice(("mine",)))
    assert column_sets(moved) == [["mine"]]


def test_embedded_sets_and_folders_are_available(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert available_data.is_available("glyphs")
    assert available_data.is_available("~/mine")
    assert not available_data.is_available(str(tmp_path / "other"))


def test_a_data_set_that_does_not_exist_is_no_data_set_that_is_not_prepared(available):
    available("glyphs")
    check_exists(DataChoice(("glyphs",), ("cub",)))
    with pytest.raises(DataError, match="no image set or folder 'glyfs'"):
        check_exists(DataChoice(("glyphs",), ("glyfs",)))
    blocks = (Block("cifar-fs-paper", (Column("glyphs"), Column("photos")), ("glyphs",)),)
    _, sentences = keep_available(Experiment("mine", "Mine", (Model("MAML", "maml"),), blocks))
    assert sentences == ["There is no folder photos, so it was left out."]
