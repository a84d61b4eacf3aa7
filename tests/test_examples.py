"""The scripts in examples/: they run, and their numbers are those of the package."""

from __future__ import annotations

import importlib
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support import make_imageset, make_method, make_task, run_command
from tiny_runs import tiny, train_tiny

from anyshot import (
    HEAD_PARAMETERS,
    MethodSettings,
    SettingsError,
    TaskSettings,
    TaskStream,
    create_method,
)
from anyshot.core.random import torch_rng
from anyshot.runs.run import Run
from anyshot.training.meta_training import task_gradients

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = {
    "ANIL": EXAMPLES / "own_method.py",
    "StepSizes": EXAMPLES / "own_method.py",
    "LearnedOptimiser": EXAMPLES / "own_method.py",
    "CosineMAML": EXAMPLES / "cosine_head.py",
}


@pytest.fixture
def import_example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


# ------------------------------------------------------------------------------- own_method.py
def make_example(name: str, **options: object):
    defaults = {"alpha": 0.1, "steps": 3, "test_steps": 4}
    return make_method(f"{FILES[name]}:{name}", **{**defaults, **options})


@pytest.mark.parametrize("name", FILES)
def test_own_methods_are_trained_resumed_and_tested_by_the_same_commands(
    name, tmp_path, monkeypatch, capsys
):
    make_imageset().save(tmp_path / "tiny")
    common = {
        "images": tmp_path / "tiny", "ood": "none", "way": 2, "shots": "any-shot:1-4", "query": 2,
        "steps": 2, "test-steps": 2, "channels": 4, "meta-batch": 1, "validate-every": 2,
        "validation-tasks": 2, "decay": "none", "checkpoint-every": 1,
        "method": f"{FILES[name]}:{name}",
    }  # fmt: skip
    options = [f"--{key}={value}" for key, value in common.items()] + ["--no-tensorboard"]
    assert run_command("train", tmp_path / "whole", *options, "--iterations", 4) == 0
    assert run_command("train", tmp_path / "parts", *options, "--iterations", 2) == 0
    monkeypatch.chdir(tmp_path)
    assert run_command("train", "parts", "--iterations", 4) == 0
    whole, parts = (Run(tmp_path / one).latest_checkpoint().tensors for one in ("whole", "parts"))
    assert all(torch.equal(parts[key], value) for key, value in whole.items())
    capsys.readouterr()
    assert run_command("test", "whole", "parts", "--tasks", 2, "--trust-code") == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
def test_own_methods_have_exact_meta_gradients(name):
    method = make_example(name)
    task = make_task(shots="class-imbalance:2-5")
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(
        method.objective(task).loss, parameters, materialize_grads=True, allow_unused=True
    )
    h, losses = 1e-8, []
    with torch.no_grad():
        for sign in (1, -2):  # at + h and at − h along the gradient
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter += sign * h * gradient
            losses.append(method.objective(task).loss)
    expected = sum((g**2).sum() for g in gradients)
    assert ((losses[0] - losses[1]) / (2 * h)).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["StepSizes", "LearnedOptimiser"])
def test_own_methods_start_as_maml(name):
    method, maml, task = (
        make_example(name),
        make_method("maml", alpha=0.1, test_steps=4),
        make_task(),
    )
    method.load_state_dict(maml.state_dict(), strict=False)
    with torch.no_grad():
        if name == "StepSizes":
            method.rate.fill_(0.1)
        else:
            method.second.zero_()
    torch.testing.assert_close(method.predict(task), maml.predict(task))
    for each in (method, maml):  # the steps also see other views of the images
        each.settings = replace(each.settings, flips=True, zooms=(0.75,))
    torch.testing.assert_close(method.predict(task), maml.predict(task))


def test_cosine_head_does_not_see_the_length_of_features():
    method, task = make_example("CosineMAML"), make_task()
    images, labels, _, _ = method.task_tensors(task)
    inner = method.inner_problem(images, labels, task.way, {}, 2)
    theta = method.adapted_parameters(inner, 2)
    assert not torch.equal(theta["head_scale"], inner.theta["head_scale"])
    features = method.embed(images)
    scores = method.class_scores(theta, features)
    torch.testing.assert_close(method.class_scores(theta, 3 * features), scores)
    assert scores.abs().max() <= theta["head_scale"]


def test_anil_adapts_the_head_alone():
    method, task = make_example("ANIL"), make_task()
    images, labels, _, _ = method.task_tensors(task)
    inner = method.inner_problem(images, labels, task.way, {}, 3)
    for name, value in method.adapted_parameters(inner, 2).items():
        assert torch.equal(value, inner.theta[name]) == (name not in HEAD_PARAMETERS)


# ------------------------------------------------------------------------- taml_in_one_file.py
@pytest.fixture
def taml(import_example):
    return import_example("taml_in_one_file")


@pytest.fixture
def method():
    """The package's Bayesian TAML in float64, away from its start so that φ differs from 0."""
    method = make_method("taml", steps=3, test_steps=4, samples=3)
    noise = torch_rng(1)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=noise).to(parameter)
    return method


def test_loss_and_meta_gradient_of_the_single_file_are_those_of_the_package(
    taml, method, monkeypatch
):
    monkeypatch.setattr(taml, "STEPS", 3)
    task = make_task(shots="class-imbalance:1-6")
    p = {name: value.detach().clone().requires_grad_() for name, value in method.named_parameters()}
    loss = taml.objective(p, method.task_tensors(task), task.noise())
    gradients = torch.autograd.grad(loss, list(p.values()))
    expected, record = task_gradients(method, task)
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx(record["loss"] + record["penalty"], rel=1e-12)
    for name, a, b in zip(p, gradients, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=name)


def test_prediction_of_the_single_file_is_that_of_the_package(taml, method, monkeypatch):
    monkeypatch.setattr(taml, "TEST_STEPS", 4)
    monkeypatch.setattr(taml, "SAMPLES", 3)
    task = make_task()
    p = dict(method.named_parameters())
    probabilities = taml.predict(p, method.task_tensors(task), task.noise())
    torch.testing.assert_close(probabilities, method.predict(task), rtol=1e-9, atol=1e-12)


def test_the_single_file_starts_as_the_package_does(taml):
    p = taml.init_parameters(32, torch_rng(0))
    expected = create_method(MethodSettings(), (32, 32)).state_dict()
    assert {name: value.shape for name, value in p.items()} == {
        name: value.shape for name, value in expected.items()
    }
    for name, value in expected.items():
        torch.testing.assert_close(p[name].mean(), value.mean(), rtol=0, atol=0.02, msg=name)
        if value.numel() > 500:
            torch.testing.assert_close(p[name].std(), value.std(), rtol=0.1, atol=1e-6, msg=name)
            assert (p[name].abs().max() <= 0.04) == (value.abs().max() <= 0.04), name


def test_tasks_of_the_single_file_have_disjoint_sets_and_any_shots(taml):
    rng = np.random.default_rng(0)
    sizes = (*[70] * 8, 40, 16)
    classes = [  # image i of class c has the value i of colour c
        np.stack([np.full((2, 2, 3), (c, i, 0), np.uint8) for i in range(size)])
        for c, size in enumerate(sizes)
    ]
    even = 0
    for _ in range(50):
        support, labels, query, query_labels = taml.sample_task(classes, rng)
        images = {tuple(x[:, 0, 0].mul(255).round().int().tolist()) for x in support}
        asked = {tuple(x[:, 0, 0].mul(255).round().int().tolist()) for x in query}
        assert len(images) == len(support)
        assert not images & asked
        assert query_labels.bincount().tolist() == [15] * 5
        shots = labels.bincount()
        assert 1 <= shots.min() <= shots.max() <= 50
        colours = [int(support[labels == c][0, 0, 0, 0] * 255 + 0.5) for c in range(5)]
        assert all(shot <= sizes[c] - 15 for shot, c in zip(shots.tolist(), colours, strict=True))
        even += len(set(shots.tolist())) == 1
    assert even > 0


# ------------------------------------------------------------------ meta_train_from_scratch.py
def test_training_from_scratch_learns(import_example):
    example = import_example("meta_train_from_scratch")
    stream = TaskStream(make_imageset(), "train", TaskSettings(way=3, shots="fixed:2", query=3))
    method = make_method("maml", alpha=0.1, steps=2)
    losses = example.train(method, stream, iterations=12, learning_rate=0.01)
    assert np.mean(losses[-3:]) < 0.9 * np.mean(losses[:3])


# --------------------------------------------------------------------------- wandb_callback.py
def test_wandb_gets_every_number_of_the_log_at_its_step(import_example, tmp_path, monkeypatch):
    logged, started, finished = [], [], []

    class Board:
        def log(self, numbers, step):
            logged.append((step, numbers))

    fake = types.ModuleType("wandb")
    fake.init = lambda **options: started.append(options) or Board()
    fake.finish = lambda: finished.append(True)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    example = import_example("wandb_callback")
    monkeypatch.setattr(example.anyshot, "preset", lambda *names: tiny("maml", iterations=2))
    monkeypatch.setattr(
        example.anyshot,
        "train",
        lambda settings, folder, callback: train_tiny(settings, folder, callback=callback),
    )
    example.main(tmp_path / "mine")
    assert started[0]["id"] == "mine"
    assert finished == [True]
    records = list(Run(tmp_path / "mine").records())
    expected = [
        {f"{r['kind']}/{key}": value for key, value in r.items() if isinstance(value, float)}
        for r in records
    ]
    assert [numbers for _, numbers in logged] == expected
    assert [step for step, _ in logged] == [r["iteration"] for r in records]
    assert {r["kind"] for r in records} == {"iteration", "validation"}


# -------------------------------------------------------------------------------------- tim.py
def test_each_update_of_tim_lowers_its_objective(import_example, monkeypatch):
    TIM = import_example("tim").TIM
    method = make_method(f"{EXAMPLES / 'tim.py'}:TIM", updates=500)
    rng = torch_rng(0, "tim")
    centres = torch.randn(3, 6, generator=rng).double()

    def draw(count):
        noise = torch.randn(3 * count, 6, generator=rng).double()
        return centres.repeat_interleave(count, 0) + noise

    support, labels, query = draw(2), torch.arange(3).repeat_interleave(2), draw(7)
    visited = []
    compute = TIM.probabilities.__get__(method)
    monkeypatch.setattr(method, "probabilities", lambda x, w: [visited.append(w), compute(x, w)][1])
    method.fit(support, labels, 3)(query)

    def loss_and_slope(w):
        w = w.detach().requires_grad_()
        units = [torch.nn.functional.normalize(x) for x in (support, query)]
        s, p = ((-7.5 * (x[:, None] - w).square().sum(2)).softmax(1) for x in units)
        mean = p.mean(0)
        loss = -0.1 * s[torch.arange(6), labels].log().mean() + (mean * mean.log()).sum()
        loss = loss - 0.1 * (p * p.log()).sum(1).mean()
        return loss.item(), torch.autograd.grad(loss, w)[0].abs().max().item()

    losses, slopes = zip(*map(loss_and_slope, visited[::2]), strict=True)  # query, support, query …
    assert (np.diff(losses) < 0).all()
    assert slopes[-1] < 0.05 * slopes[0]  # towards a stationary point


def test_tim_refuses_inductive_tests():
    with pytest.raises(SettingsError, match="transductive"):
        make_method(f"{EXAMPLES / 'tim.py'}:TIM", transductive=False)


def test_tim_is_trained_and_tested_by_the_usual_commands(tmp_path):
    make_imageset().save(tmp_path / "tiny")
    options = ["--way=2", "--shots=fixed:2", "--query=2", "--channels=4", "--ood=none"]
    options += [f"--images={tmp_path / 'tiny'}", f"--method={EXAMPLES / 'tim.py'}:TIM"]
    options += ["--iterations=1", "--validate-every=1", "--validation-tasks=2", "--no-tensorboard"]
    assert run_command("train", tmp_path / "run", *options) == 0
    assert run_command("test", tmp_path / "run", "--tasks", 2, "--trust-code") == 0
