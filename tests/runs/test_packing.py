from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import make_imageset
from tiny_runs import tiny, train_tiny

import anyshot
from anyshot.core.errors import RunError, SettingsError
from anyshot.runs.initial_body import open_initial_body
from anyshot.runs.packing import pack
from anyshot.runs.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs: two seeds of MAML, one of them with fewer channels, and one of Meta-SGD."""
    folder = tmp_path_factory.mktemp("runs")
    narrow = tiny("maml", seed=1)
    narrow = replace(narrow, method=replace(narrow.method, channels=16))
    made = {"one": tiny("maml"), "two": narrow, "other": tiny("meta-sgd")}
    return [train_tiny(settings, folder / name) for name, settings in made.items()]


@pytest.fixture(scope="module")
def ensemble(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "ensemble"
    pack(runs[:2], folder)
    return Run(folder)


def task_of(run: Run) -> anyshot.Task:
    return anyshot.TaskStream(make_imageset(), "test", run.settings.task).task(0)


def test_probabilities_are_the_mean_of_those_of_the_members(runs, ensemble):
    task, method = task_of(ensemble), ensemble.load_method()
    each = [run.load_method().predict(task) for run in runs[:2]]
    assert (each[0] - each[1]).abs().max() > 1e-3
    torch.testing.assert_close(method.predict(task), (each[0] + each[1]) / 2)
    predictor = method.adapt(task.support, task.support_labels)
    torch.testing.assert_close(predictor(task.query), (each[0] + each[1]) / 2)


def test_settings_of_a_test_reach_every_member(runs, ensemble):
    def with_steps(run: Run, steps: int) -> Run:
        run = Run(run.folder)
        method = replace(run.settings.method, test_steps=steps)
        run.settings = replace(run.settings, method=method)
        return run

    task = task_of(ensemble)
    each = [with_steps(run, 1).load_method().predict(task) for run in runs[:2]]
    averaged = with_steps(ensemble, 1).load_method().predict(task)
    torch.testing.assert_close(averaged, (each[0] + each[1]) / 2)
    assert (averaged - ensemble.load_method().predict(task)).abs().max() > 1e-4


def test_a_single_packed_run_is_no_ensemble(runs, tmp_path):
    pack(runs[:1], tmp_path)
    assert not isinstance(Run(tmp_path).load_method(), anyshot.Ensemble)


def test_runs_of_different_methods_are_not_packed(runs, tmp_path):
    with pytest.raises(RunError, match="other settings of the method"):
        pack(runs, tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_runs_that_learned_from_other_images_are_not_packed(runs, tmp_path):
    images = make_imageset(images=25)
    other = anyshot.train(tiny("maml"), tmp_path / "run", imagesets=[images], ood=[])
    with pytest.raises(RunError, match="has learned from other images"):
        pack([runs[0], other], tmp_path / "mixed")


def test_runs_with_other_training_classes_are_not_packed(runs, tmp_path):
    images = make_imageset()
    train_classes, test_classes = images.splits["train"], images.splits["test"]
    exchanged = {**images.splits, "train": test_classes, "test": train_classes}
    images = replace(images, splits=exchanged)
    other = anyshot.train(tiny("maml"), tmp_path / "run", imagesets=[images], ood=[])
    with pytest.raises(RunError, match="or classes"):
        pack([runs[0], other], tmp_path / "mixed")


def test_a_packed_ensemble_keeps_all_members_when_it_is_packed_again(runs, ensemble, tmp_path):
    copy, larger = tmp_path / "copy", tmp_path / "larger"
    third = train_tiny(tiny("maml", seed=2), tmp_path / "third")
    ensemble.export(copy)
    pack([ensemble, third], larger)
    task = task_of(ensemble)
    three = [run.load_method().predict(task) for run in (*runs[:2], third)]
    torch.testing.assert_close(Run(copy).load_method().predict(task), (three[0] + three[1]) / 2)
    torch.testing.assert_close(Run(larger).load_method().predict(task), sum(three) / 3)
    pack([third, ensemble], tmp_path / "turned")
    torch.testing.assert_close(Run(tmp_path / "turned").load_method().predict(task), sum(three) / 3)


def test_a_run_is_not_overwritten_by_packing(runs):
    before = runs[1].best_path.read_bytes()
    with pytest.raises(RunError, match="would be overwritten"):
        pack(runs[:1], runs[1].folder)
    assert runs[1].best_path.read_bytes() == before


def test_packed_weights_are_not_overwritten_by_training(runs, tmp_path):
    pack(runs[:1], tmp_path / "packed")
    with pytest.raises(RunError, match="holds packed weights"):
        train_tiny(tiny("maml"), tmp_path / "packed")
    assert Run(tmp_path / "packed").best_path.read_bytes() == runs[0].best_path.read_bytes()


def test_a_run_is_no_member_twice(runs, tmp_path):
    with pytest.raises(RunError, match="same parameters"):
        pack([runs[0], runs[0]], tmp_path / "twice")


def test_an_ensemble_is_no_body_to_start_from_and_has_no_features(ensemble):
    with pytest.raises(RunError, match="ensemble of 2 networks"):
        open_initial_body(str(ensemble.folder))
    method = ensemble.load_method()
    with pytest.raises(SettingsError, match="no features of its own"):
        method.embed(torch.rand(2, 3, *ensemble.image_size))
    with pytest.raises(RunError, match="members of an ensemble"):
        anyshot.inspect_task(method, task_of(ensemble))


def test_members_take_images_of_one_size():
    members = [
        anyshot.create_method(anyshot.MethodSettings(name="protonet"), image_size=(side, side))
        for side in (16, 32)
    ]
    with pytest.raises(SettingsError, match=r"\(16, 16\) and \(32, 32\)"):
        anyshot.Ensemble(members)
    with pytest.raises(SettingsError, match="at least one"):
        anyshot.Ensemble([])


def test_a_packed_run_has_no_paths_of_this_machine(runs, tmp_path):
    started = tiny("maml", iterations=1).with_initial_body(str(runs[0].folder))
    run = train_tiny(started, tmp_path / "run")
    assert str(runs[0].folder) in (run.folder / "run.json").read_text()
    pack([run], tmp_path / "packed")
    packed = Run(tmp_path / "packed")
    assert packed.settings.train.body_from == runs[0].folder.name
    assert str(tmp_path.parent) not in (tmp_path / "packed" / "config.json").read_text()
