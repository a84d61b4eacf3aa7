from __future__ import annotations

import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support import make_imageset
from support import run_command as run

from anyshot.core.errors import DataError, RunError
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.data import ImageSet
from anyshot.runs.run import Run
from anyshot.training.stages import train


def settings(*images: str, way: int = 3) -> Settings:
    return Settings(
        images=images or ("tiny",),
        task=TaskSettings(way=way, shots="fixed:2", query=2),
        method=MethodSettings(name="protonet"),
        train=TrainSettings(
            iterations=2, meta_batch=1, validate_every=1, validation_tasks=2, checkpoint_every=1
        ),
    )


def names(images: ImageSet) -> dict[str, set[str]]:
    return {split: {images.classes[c] for c in members} for split, members in images.splits.items()}


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """A folder of six classes of six pictures, as in the README."""
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    for c in range(6):
        add_class(tmp_path / "pictures", f"class {c}", c)
    return tmp_path / "pictures"


def add_class(root, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (root / name).mkdir(parents=True)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(root / name / f"{i}.png")


def test_sets_given_in_python_are_recorded(tmp_path):
    made = train(
        settings("glyphs"),
        tmp_path / "run",
        imagesets=[make_imageset()],
        ood=[make_imageset(name="far")],
    )
    assert made.settings.images == ("tiny",)
    assert made.settings.ood == ("far",)
    again = Run(tmp_path / "run")
    assert [(record.name, record.learned) for record in again.sets] == [
        ("tiny", True),
        ("far", False),
    ]
    assert again.sets[0].checksum == make_imageset().checksum
    assert again.sets[0].splits["train"] == tuple(f"class {c}" for c in range(4))
    with pytest.raises(DataError, match=r"'tiny'.*ImageSet\.save"):
        again.imageset("tiny")
    make_imageset().save(tmp_path / "saved")
    assert names(again.imageset(tmp_path / "saved")) == names(make_imageset())


def test_new_run_can_do_without_ood_images_that_are_not_prepared(pictures, tmp_path):
    wanted = replace(settings(str(pictures)), ood=("cub",))
    with pytest.raises(DataError, match=r"anyshot data prepare cub.*--ood none"):
        train(wanted, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(replace(wanted, ood=()), tmp_path / "run")


def test_saved_set_is_found_by_its_name(tmp_path):
    saved = make_imageset().save(tmp_path / "saved")
    made = train(settings(), tmp_path / "run", imagesets=[saved], ood=[])
    assert names(made.imageset("tiny")) == names(saved)
    assert (
        train(made.settings, tmp_path / "run").folder == made.folder
    )  # continues without the images being given again


def test_run_with_changed_images_is_refused(tmp_path):
    train(settings(), tmp_path, imagesets=[make_imageset()], ood=[])
    other = make_imageset()
    arrays = {label: other.images_of(label).copy() for label in other.classes}
    arrays["class 0"][:] = 0
    changed = replace(ImageSet.from_arrays("tiny", arrays, {}), splits=other.splits)
    with pytest.raises(
        DataError,
        match=r"'tiny' has changed.*'class 0'",
    ):
        train(settings(), tmp_path, imagesets=[changed], ood=[])


def test_six_classes_are_enough_for_three_way_tasks(pictures, tmp_path):
    made = train(settings(str(pictures)), tmp_path / "run")
    splits = names(made.imageset(pictures))
    assert {split: len(members) for split, members in splits.items()} == {"train": 3, "test": 3}
    assert made.best().state == {"iteration": 2, "selection": None, "by": "last"}
    assert list(made.records("validation")) == []
    assert run("train", tmp_path / "run") == 0
    assert run("test", tmp_path / "run", "--tasks", "2") == 0


def test_added_class_never_turns_a_training_class_into_a_test_class(pictures, tmp_path):
    made = train(settings(str(pictures)), tmp_path / "run")
    before = names(made.imageset(pictures))
    for seed, name in enumerate(("aaa", "class 00", "zzz"), 100):
        add_class(pictures, name, seed)
        after = names(made.imageset(str(pictures)))
        assert after["train"] == before["train"]
        assert after["test"] == before["test"] | {name}
        before = after
    train(settings(str(pictures)), tmp_path / "run")  # goes on: what it learned from is as it was
    shutil.rmtree(pictures / sorted(before["train"])[0])
    with pytest.raises(DataError, match=r"'pictures' has changed.*is missing"):
        train(settings(str(pictures)), tmp_path / "run")


def test_run_finds_its_images_from_any_working_directory(pictures, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    made = train(settings("pictures"), tmp_path / "run")
    made.imageset("pictures")
    assert not caplog.messages
    elsewhere = tmp_path / "elsewhere"
    add_class(elsewhere / "pictures", "other", 50)
    monkeypatch.chdir(elsewhere)
    assert set(made.imageset("pictures").classes) == {f"class {c}" for c in range(6)}
    assert "write ./pictures" in caplog.messages[-1]
    assert made.imageset("./pictures").classes == ("other",)
    assert train(settings("pictures"), tmp_path / "run").folder == made.folder
    pictures.rename(tmp_path / "elsewhere" / "moved")
    assert made.imageset("pictures").classes == ("other",)  # nothing else is called so now


def test_another_way_is_reported_as_other_settings(pictures, tmp_path):
    train(settings(str(pictures)), tmp_path / "run")
    with pytest.raises(RunError, match="way 3, not 4"):
        train(settings(str(pictures), way=4), tmp_path / "run")


def test_copy_of_the_training_images_is_not_tested_on(pictures, tmp_path, caplog):
    made = train(settings(str(pictures)), tmp_path / "run")
    learned = names(made.imageset(pictures))["train"]
    shutil.copytree(pictures, tmp_path / "copy")
    (tmp_path / "copy" / sorted(learned)[0]).rename(tmp_path / "copy" / "renamed")
    copy = names(made.imageset(tmp_path / "copy"))
    assert copy["train"] == learned - {sorted(learned)[0]} | {"renamed"}
    *kept, _ = sorted(copy["train"])  # "renamed" comes last, as in the folder
    warning = caplog.messages[-1]
    assert str(made.folder) in warning
    assert f"3 of its classes ({', '.join(kept)}, renamed)" in warning
    shutil.rmtree(tmp_path / "copy")
    for name in learned:
        shutil.copytree(pictures / name, tmp_path / "copy" / name)
    assert run("test", tmp_path / "run", "--images", tmp_path / "copy", "--tasks", "2") == 1
    assert (
        run(
            "test",
            tmp_path / "run",
            "--images",
            tmp_path / "copy",
            "--split",
            "train",
            "--tasks",
            "2",
        )
        == 0
    )


def test_new_folder_has_test_classes_only(pictures, tmp_path, caplog):
    made = train(settings(str(pictures)), tmp_path / "run")
    for c in range(4):
        add_class(tmp_path / "holiday", f"class {c}", 50 + c)
    with caplog.at_level(logging.WARNING):
        assert names(made.imageset(tmp_path / "holiday")) == {
            "test": {f"class {c}" for c in range(4)}
        }
    assert caplog.text == ""


def test_a_run_on_oblong_images_finds_its_set_again_and_refuses_other_sizes(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"{c}": rng.integers(0, 256, (4, 16, 24, 3), np.uint8) for c in range(10)}
    oblong = ImageSet.from_arrays("oblong", arrays).save(tmp_path / "oblong")
    made = train(settings(str(tmp_path / "oblong"), way=2), tmp_path / "run", imagesets=[oblong])
    assert made.imageset(tmp_path / "oblong").size == (16, 24)
    with pytest.raises(DataError, match="32x32, but the run takes 16x24"):
        made.imageset("glyphs")
