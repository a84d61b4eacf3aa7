"""A task is computed on the device of the parameters; tests use a fake device."""

from __future__ import annotations

import pytest
import torch
from support import make_imageset, make_method, make_task
from tiny_runs import pretrain_tiny, tiny_pretraining

from anyshot.cli.main import main
from anyshot.core.errors import SettingsError
from anyshot.core.parallel.device import choose_device
from anyshot.core.registry import METHODS
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)
from anyshot.evaluation.inspection import inspect_task
from anyshot.runs.run import Run
from anyshot.training.meta_training import task_gradients
from anyshot.training.pretraining import Pretraining
from anyshot.training.stages import pretrain, train

CASES = {
    "": {},
    "one by one": {"transductive": False, "centre": True},
    "resnet12": {"body": "resnet12", "channels": 2},
    "means": {"head": "shrunk-prototypes", "omega_prior": 0.5, "cardinality": "log"},
    "flat": {
        "hierarchical": False,
        "class_mean": True,
        "z_site": "activation",
    },
    "evidence": {"evidence": True, "gains": (2.0, 0.1, 0.03)},
    "attention": {"encoder": "normalized", "pooling": "attention", "norm_prior": 5.0},
    "frozen": {"adapt_body": False, "transductive": False, "stored_statistics": True},
    "views": {"flips": True, "zooms": (0.8,), "shift": 1, "remedy": "oversampling+"},
    "focal": {"remedy": "focal", "order": 1},
    "offset": {"remedy": "logit-adjustment", "divide_by_shots": True},
}


@pytest.fixture(scope="module")
def fake() -> str:
    fake_device = pytest.importorskip(
        "fake_device", reason="this torch has no devices written in Python", exc_type=ImportError
    )
    return fake_device.NAME


def test_fake_device_refuses_tensors_of_two_devices(fake):
    x = torch.ones(3)
    assert (x.to(fake) * 2 + torch.tensor(1.0)).cpu().tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="tensors of two devices"):
        x.to(fake) + x


@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in METHODS
        for case in (CASES if name == "taml" else ("", "one by one"))
    ],
)
def test_gradients_and_predictions_are_on_the_device_of_the_parameters(name, case, fake):
    task, options = make_task(), {"alpha": 0.05, "steps": 2, "test_steps": 2, **CASES[case]}
    here, there = make_method(name, **options), make_method(name, **options).to(fake)
    expected, figures = task_gradients(here, task)
    found, same = task_gradients(there, task)
    assert {g.device.type for g in found} == {fake}
    assert same == pytest.approx(figures)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-9, atol=1e-11)
    p = there.predict(task)
    assert p.device.type == fake
    torch.testing.assert_close(p.cpu(), here.predict(task))


def test_inspection_works_on_another_device(fake):
    here, there = (
        inspect_task(make_method("taml").to(device), make_task()) for device in ("cpu", fake)
    )
    assert there.gamma_mean == pytest.approx(here.gamma_mean)
    assert there.z_norm == pytest.approx(here.z_norm)


def settings(iterations: int, **options) -> Settings:
    return Settings(
        images=("tiny",),
        task=TaskSettings(way=2, shots="any-shot:1-4", query=3),
        method=MethodSettings(
            name="taml",
            start="he",
            channels=4,
            steps=2,
            test_steps=2,
            alpha=0.05,
            options={"samples": 2},
        ),
        train=TrainSettings(
            iterations=iterations, meta_batch=2, validate_every=2, validation_tasks=2, **options
        ),
    )


def test_run_continues_and_is_tested_on_another_device(fake, tmp_path):
    def run(name: str, iterations: int, device: str) -> Run:
        images = [make_imageset()]
        return train(settings(iterations), tmp_path / name, imagesets=images, ood=[], device=device)

    run("whole", 4, "cpu")
    run("moved", 2, fake)
    moved = run("moved", 4, "cpu")
    expected, found = (
        Run(tmp_path / name).latest_checkpoint().tensors for name in ("whole", "moved")
    )
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5)
    run("back", 2, "cpu")
    back = run("back", 4, fake)
    p = back.load_method(fake).predict(make_task(way=2))
    assert p.device.type == fake
    torch.testing.assert_close(
        p.cpu(), moved.load_method().predict(make_task(way=2)), rtol=1e-3, atol=1e-4
    )


def test_pretraining_works_on_another_device(fake, tmp_path):
    chosen = Settings(
        images=("tiny",),
        task=TaskSettings(way=2),
        method=MethodSettings(name="protonet", channels=4),
        train=TrainSettings(iterations=0),
        pretrain=PretrainSettings(epochs=1, batch=32),
    )
    for device in ("cpu", fake):
        pretrain(chosen, tmp_path / device, imagesets=[make_imageset()], ood=[], device=device)
    here, there = (Run(tmp_path / device).load_method().theta for device in ("cpu", fake))
    for name, value in here.items():
        torch.testing.assert_close(there[name], value, rtol=1e-3, atol=1e-5)


def test_pretraining_continues_on_another_device(fake, tmp_path):
    folder, sets = tmp_path / "run", [make_imageset()]
    run = Run.open_or_create(folder, tiny_pretraining(epochs=2), (16, 16))
    first = Pretraining(run, sets)
    first.step(lambda *_: None)
    first.save_checkpoint()
    pretrain_tiny(run.settings, folder, sets, device=fake)
    whole = pretrain_tiny(run.settings, tmp_path / "whole", sets)
    for name, value in whole.load_method().theta.items():
        torch.testing.assert_close(run.load_method().theta[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
@pytest.mark.parametrize("command", ["train", "test", "inspect", "pretrain"])
def test_missing_device_is_one_sentence(command, tmp_path, capsys):
    folder = tmp_path / "run"
    if command in ("test", "inspect"):
        train(settings(2), folder, imagesets=[make_imageset()], ood=[])
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([command, str(folder), "--device", "cuda"])
    assert end.value.code == 1
    assert "Device 'cuda' is not available (Torch not compiled with CUDA" in capsys.readouterr().err
    assert command in ("test", "inspect") or not folder.exists()


def test_auto_is_the_cpu_without_cuda_and_unknown_devices_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(SettingsError, match="'gpu'"):
        choose_device("gpu")
