"""anyshot's recipe: a warm start, then meta-learning from its body; the paper's protocol otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import assert_equal, make_imageset
from support import run_command as run

from anyshot.core.registry import METHODS
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.runs.run import Run
from anyshot.training.meta_training import train
from anyshot.training.presets import preset
from anyshot.training.pretraining import pretrain
from anyshot.training.recipe import PAPERS, recipe, train_by_recipe


@pytest.mark.parametrize("name", PAPERS)
def test_what_makes_numbers_comparable_stays_the_papers(name):
    before, after = preset(name), recipe(preset(name))
    assert (after.images, after.ood, after.task, after.mixing) == (
        before.images,
        before.ood,
        before.task,
        before.mixing,
    )
    for setting in ("body", "channels", "steps", "balance", "bayesian", "samples", "transductive"):
        assert getattr(after.method, setting) == getattr(before.method, setting)
    assert (after.train.meta_batch, after.train.seed) == (
        before.train.meta_batch,
        before.train.seed,
    )
    assert after != before


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_has_a_recipe(method):
    assert recipe(preset("cifar-fs", method)).method.name == method


def test_the_command_takes_the_recipe_and_leaves_the_paper_to_who_asks(capsys):
    shown = {}
    for name in ("anyshot", "paper"):
        assert run("train", "--preset", "cifar-fs", "--recipe", name, "--show") == 0
        shown[name] = capsys.readouterr().out
    assert run("train", "--preset", "cifar-fs", "--show") == 0
    assert capsys.readouterr().out == shown["anyshot"] != shown["paper"]
    assert "iterations        50000" in shown["paper"]
    assert run("train", "--recipe", "mine", "--show") == 2
    assert "'mine' is not one of anyshot, paper" in " ".join(
        capsys.readouterr().err.replace("│", "").split()
    )


@pytest.fixture
def tiny(monkeypatch) -> Settings:
    from anyshot.training import presets

    monkeypatch.setattr(
        presets, "PretrainSettings", lambda: PretrainSettings(epochs=1, batch=20, check_tasks=2)
    )
    return Settings(
        images=("tiny",),
        task=TaskSettings(way=2, shots="any-shot:1-3", query=2),
        method=MethodSettings(name="meta-sgd", channels=4, steps=1, test_steps=1),
        train=TrainSettings(
            iterations=3, meta_batch=1, validate_every=0, validation_tasks=2, checkpoint_every=1
        ),
    )


def test_the_warm_start_is_a_run_in_the_folder_and_gives_the_body(tiny, tmp_path):
    images = [make_imageset()]
    done = train_by_recipe(tiny, tmp_path / "run", imagesets=images)
    warm = Run(tmp_path / "run" / "warm")
    assert warm.settings.warm.epochs == 1
    assert done.info["body"]["source"] == str(warm.folder)
    by_hand = train(
        replace(tiny, train=replace(tiny.train, body_from=str(warm.folder))),
        tmp_path / "by hand",
        imagesets=images,
    )
    assert_equal(done.best().tensors, by_hand.best().tensors)


def test_a_stage_that_was_interrupted_goes_on_and_one_that_is_done_stays(tiny, tmp_path):
    images, folder = [make_imageset()], tmp_path / "run"

    def stop(record: dict) -> None:
        if record.get("iteration") == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_by_recipe(tiny, folder, imagesets=images, callback=stop)
    before = (folder / "warm" / "best.safetensors").stat().st_mtime_ns
    done = train_by_recipe(tiny, folder, imagesets=images)
    assert (folder / "warm" / "best.safetensors").stat().st_mtime_ns == before
    assert [record["iteration"] for record in done.records("iteration")] == [1, 2, 3]
    assert_equal(
        done.best().tensors,
        train_by_recipe(tiny, tmp_path / "whole", imagesets=images).best().tensors,
    )


def test_a_body_that_is_named_needs_no_other(tiny, tmp_path):
    from anyshot.training.presets import pretraining_settings

    images = [make_imageset()]
    pretrain(pretraining_settings(tiny), tmp_path / "body", imagesets=images)
    settings = replace(tiny, train=replace(tiny.train, body_from=str(tmp_path / "body")))
    train_by_recipe(settings, tmp_path / "run", imagesets=images)
    assert not (tmp_path / "run" / "warm").exists()
