"""Runs of one and two stages: pre-training and meta-training, interrupted, resumed and moved."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import assert_equal, make_imageset
from support import run_command as run

from anyshot import preset, pretrain, train
from anyshot.core.errors import RunError, SettingsError
from anyshot.core.registry import METHODS
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.runs.run import Run
from anyshot.training.presets import PAPER, PRESETS, pretraining_settings

TWO_STAGES = Settings(
    images=("tiny",),
    task=TaskSettings(way=2, shots="any-shot:1-3", query=2),
    method=MethodSettings(name="meta-sgd", channels=4, steps=1, test_steps=1),
    train=TrainSettings(
        iterations=3, meta_batch=1, validate_every=0, validation_tasks=2, checkpoint_every=1, seed=5
    ),
    pretrain=PretrainSettings(epochs=3, batch=20, check_tasks=2),
)


class Stop(BaseException):
    """As abrupt as Ctrl-C."""


def stop_at(**position):
    """A callback that stops at the record with this position, such as epoch=2."""

    def callback(record: dict) -> None:
        if position.items() <= record.items():
            raise Stop

    return callback


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    return train(
        TWO_STAGES, tmp_path_factory.mktemp("two") / "whole", imagesets=[make_imageset()], ood=[]
    )


# ------------------------------------------------------------------------------- the recipe
@pytest.mark.parametrize("name", PAPER)
def test_the_recipe_keeps_what_makes_numbers_comparable(name):
    paper, recipe = preset(f"{name}-paper"), preset(name)
    for part in ("images", "ood", "task", "mixing"):
        assert getattr(recipe, part) == getattr(paper, part)
    for setting in ("body", "channels", "steps", "transductive"):
        assert getattr(recipe.method, setting) == getattr(paper.method, setting)
    for option in ("balance", "bayesian", "samples", "omega_hidden"):
        assert recipe.method.all_options()[option] == paper.method.all_options()[option]
    assert recipe.train.meta_batch == paper.train.meta_batch
    assert (paper.pretrain, recipe.pretrain.epochs, recipe.train.iterations) == (None, 200, 200)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", list(METHODS))
def test_every_preset_is_valid_for_every_method(name, method):
    assert preset(name, method).method.name == method


@pytest.mark.parametrize("name", ["cifar-fs", "cifar-fs-paper"])
def test_python_and_the_command_train_the_same_settings(name, tmp_path, monkeypatch):
    import anyshot.experiments.seeds  # noqa: F401 (before `train` is replaced, which it imports)

    started = []

    def record(settings, folder, **_):
        started.append(settings)
        raise SettingsError("enough")

    monkeypatch.setattr("anyshot.training.stages.train", record)
    assert run("train", tmp_path / "run", "--preset", name) == 1
    assert started == [preset(name)]


# ------------------------------------------------------------------------------- the stages
def test_two_stages_equal_pretraining_then_training_from_its_body(whole, tmp_path):
    images = {"imagesets": [make_imageset()], "ood": []}
    body = pretrain(TWO_STAGES, tmp_path / "body", **images)
    by_hand = train(TWO_STAGES.with_initial_body(str(body.folder)), tmp_path / "by hand", **images)
    assert_equal(Run(whole.folder / "pretrain").best().tensors, body.best().tensors)
    assert_equal(whole.best().tensors, by_hand.best().tensors)
    assert list(whole.records()) == list(by_hand.records())


def test_the_run_records_the_body_that_pretraining_made(whole):
    recorded = json.loads((whole.folder / "run.json").read_text())["body"]
    assert recorded["source"] == "pretrain"
    assert len(recorded["sha256"]) == 64


@pytest.mark.parametrize("position", [{"epoch": 2}, {"kind": "check"}, {"iteration": 2}])
def test_a_stage_that_was_interrupted_continues_to_the_same_bits(position, whole, tmp_path):
    images = {"imagesets": [make_imageset()], "ood": []}
    with pytest.raises(Stop):
        train(TWO_STAGES, tmp_path / "run", **images, callback=stop_at(**position))
    assert Run.find_started(tmp_path / "run").settings == whole.settings
    done = train(Run(tmp_path / "run").settings, tmp_path / "run", **images)
    assert_equal(done.best().tensors, whole.best().tensors)
    assert_equal(done.latest_checkpoint().tensors, whole.latest_checkpoint().tensors)
    assert list(done.records()) == list(whole.records())


def test_a_finished_pretraining_is_not_repeated(whole, tmp_path):
    images = {"imagesets": [make_imageset()], "ood": []}
    with pytest.raises(Stop):
        train(TWO_STAGES, tmp_path / "run", **images, callback=stop_at(iteration=1))
    body = tmp_path / "run" / "pretrain" / "best.safetensors"
    before = body.stat().st_mtime_ns
    train(TWO_STAGES, tmp_path / "run", **images)
    assert body.stat().st_mtime_ns == before


def test_the_progress_covers_both_stages(whole, tmp_path):
    seen = []
    folder = tmp_path / "run"

    def note(record: dict) -> None:
        seen.append(Run.find_started(folder).progress() if record["kind"] != "check" else 0)

    train(TWO_STAGES, folder, imagesets=[make_imageset()], ood=[], callback=note)
    assert 0 < max(seen) < 1
    assert Run(folder).progress() == whole.progress() == 1
    assert Run(folder / "pretrain").progress() == 1


def test_a_failure_before_the_first_step_leaves_nothing_behind(tmp_path):
    too_wide = replace(TWO_STAGES, task=TaskSettings(way=9))
    with pytest.raises(Exception, match="9"):
        train(too_wide, tmp_path / "run", imagesets=[make_imageset()], ood=[])
    assert not (tmp_path / "run").exists()


def test_a_run_of_pretraining_alone_is_trained_by_either_function(tmp_path):
    images = {"imagesets": [make_imageset()], "ood": []}
    alone = pretraining_settings(TWO_STAGES)
    assert alone.pretrains_only
    one = train(alone, tmp_path / "train", **images)
    other = pretrain(alone, tmp_path / "pretrain", **images)
    assert one.settings == other.settings
    assert_equal(one.best().tensors, other.best().tensors)
    assert not (tmp_path / "train" / "pretrain").exists()


def test_the_pretraining_seed_is_its_own(tmp_path):
    images = {"imagesets": [make_imageset()], "ood": []}
    short = replace(TWO_STAGES, pretrain=replace(TWO_STAGES.pretrain, epochs=1))
    bodies = [
        pretrain(replace(short, pretrain=replace(short.pretrain, seed=seed)), tmp_path / f"{seed}",
                 **images).best().tensors
        for seed in (0, 1)
    ]  # fmt: skip
    assert not bodies[0]["theta.conv1_weight"].equal(bodies[1]["theta.conv1_weight"])


# ------------------------------------------------------------------------------- refusals
def test_settings_of_another_kind_are_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match="MethodSettings"):
        train(MethodSettings(name="maml"), tmp_path / "run")
    with pytest.raises(SettingsError, match="str"):
        pretrain("cifar-fs", tmp_path / "run")


def test_a_body_is_pretrained_or_given_but_not_both():
    with pytest.raises(SettingsError, match="cifar-fs"):
        replace(TWO_STAGES, train=replace(TWO_STAGES.train, body_from="cifar-fs"))
    assert TWO_STAGES.with_initial_body("cifar-fs").pretrain is None


def test_settings_without_any_stage_are_refused():
    with pytest.raises(SettingsError, match="iterations is 0"):
        Settings(train=TrainSettings(iterations=0))


def test_pretrain_does_not_touch_a_run_with_meta_training(whole):
    with pytest.raises(RunError, match="anyshot train"):
        pretrain(TWO_STAGES, whole.folder, imagesets=[make_imageset()], ood=[])


# ------------------------------------------------------------------------------- the command
@pytest.fixture
def folder_of_images(tmp_path):
    make_imageset().save(tmp_path / "images" / "tiny")
    return tmp_path / "images" / "tiny"


SHORT = (
    "--way=2", "--shots=any-shot:1-3", "--query=2", "--channels=4", "--steps=1", "--test-steps=1",
    "--iterations=2", "--meta-batch=1", "--validate-every=0", "--validation-tasks=2", "--epochs=2",
)  # fmt: skip


def test_ctrl_c_in_pretraining_says_how_to_continue_that_run(
    folder_of_images, tmp_path, monkeypatch, capsys
):
    from anyshot.training.pretraining import Pretraining

    def interrupt(*_):
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Pretraining, "step", interrupt)
        assert run("train", folder, "--images", folder_of_images, *SHORT) == 130
    assert f"anyshot train {folder}" in capsys.readouterr().err
    assert run("train", folder) == 0
    done = Run(folder)
    assert (done.settings.images, done.settings.pretrain.epochs) == ((str(folder_of_images),), 2)
    assert len(list(done.records("iteration"))) == 2


def test_a_run_continues_from_another_working_directory(folder_of_images, tmp_path, monkeypatch):
    from anyshot.training.meta_training import MetaTraining

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    images = folder_of_images.relative_to(tmp_path)
    assert run("pretrain", "body", "--images", images, "--way=2", "--channels=4", "--epochs=1") == 0
    short = [option for option in SHORT if "--epochs" not in option]
    with monkeypatch.context() as patch:
        patch.setattr(MetaTraining, "step", interrupt)
        assert run("train", "run", "--images", images, *SHORT) == 130
        assert run("train", "other", "--images", images, "--from", "body", *short) == 130
    assert Run("other").settings.train.body_from == str(tmp_path / "body")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in ("run", "other"):
        assert run("train", f"../{name}") == 0
        assert len(list(Run(tmp_path / name).records("iteration"))) == 2
    monkeypatch.chdir(tmp_path)
    assert run("train", "other", "--images", images, "--from", "body", *short) == 0


def test_from_takes_the_place_of_pretraining(capsys):
    assert run("train", "--preset", "cifar-fs", "--from", "cifar-fs", "--show") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "* from cifar-fs (not none)" in lines
    assert "* epochs none (not 200)" in lines
