from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.core.registry import EXPERIMENTS
from anyshot.experiments import available_data
from anyshot.experiments.available_data import chosen, with_data, with_ready
from anyshot.experiments.scale import DataChoice


@pytest.fixture
def here(monkeypatch):
    """Say which sets are ready."""

    def only(*names: str) -> None:
        monkeypatch.setattr(available_data, "is_available", lambda images: images in names)

    return only


def labels(experiment) -> list[list[str]]:
    return [[column.images for column in block.columns] for block in experiment.blocks]


def test_columns_whose_images_are_missing_are_left_out_with_a_sentence(here):
    here("cifar-fs", "svhn", "miniimagenet")
    found, sentences = with_ready(EXPERIMENTS["any-shot"])
    assert labels(found) == [["cifar-fs", "svhn"], ["miniimagenet"]]
    assert sentences == ["cub is not ready here and left out (anyshot data prepare cub)."]


def test_a_block_learns_from_what_there_is(here):
    here("quickdraw", "vgg-flower", "gtsrb", "fashion-mnist")
    found, sentences = with_ready(EXPERIMENTS["multi-dataset"])
    assert found.blocks[0].images == ("quickdraw", "vgg-flower")
    assert labels(found) == [["quickdraw", "vgg-flower", "gtsrb", "fashion-mnist"]]
    assert len(sentences) == 1


def test_a_block_without_anything_to_learn_from_or_to_test_on_is_left_out(here):
    here("cifar-fs", "svhn", "cub")
    found, _ = with_ready(EXPERIMENTS["any-shot"])
    assert labels(found) == [["cifar-fs", "svhn"]]
    here("cifar-fs")
    found, _ = with_ready(EXPERIMENTS["ood"])
    assert labels(found) == [[]]  # the picture of its starts is left
    assert [column.images for column in found.blocks[0].pictures[0].columns] == ["cifar-fs"]


def test_nothing_at_all_is_an_error_with_what_to_do(here):
    here()
    with pytest.raises(
        AnyshotError, match=r"Nothing of statistics can be done .*anyshot data prepare cifar-fs"
    ):
        with_ready(EXPERIMENTS["statistics"])


def test_only_the_columns_asked_for_are_kept():
    found = chosen(EXPERIMENTS["any-shot"], ["svhn"])
    assert labels(found) == [["svhn"]]
    with pytest.raises(AnyshotError, match="no column of 'mnist'; there are cifar-fs, svhn"):
        chosen(EXPERIMENTS["any-shot"], ["mnist"])


def test_other_images_take_the_places_of_those_learned_from_and_of_the_others():
    found = with_data(EXPERIMENTS["any-shot"], DataChoice(("mine",), ("one", "two")))
    assert labels(found) == [["mine", "one", "two"]]
    assert found.blocks[0].images == ("mine",)
    assert not any(column.paper for column in found.columns)


def test_columns_that_differ_in_shots_alone_stay_apart_on_other_images():
    found = with_data(EXPERIMENTS["class-imbalance"], DataChoice(("mine",)))
    assert [column.label for column in found.columns] == [
        "mine, fixed:10", "mine, class-imbalance:5-25", "mine, class-imbalance:1-50",
    ]  # fmt: skip
    sizes = with_data(EXPERIMENTS["task-imbalance"], DataChoice(("mine",)))
    assert len(sizes.columns) == 8


def test_an_experiment_of_pictures_alone_and_a_block_of_them_are_moved_once():
    (block,) = with_data(EXPERIMENTS["initialisation"], DataChoice(("mine",), ("other",))).blocks
    assert [column.label for column in block.pictures[0].columns] == [
        "mine, fixed:50",
        "other, fixed:50",
    ]
    assert len(with_data(EXPERIMENTS["ood"], DataChoice(("mine",), ("other",))).blocks) == 1
