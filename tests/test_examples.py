"""The methods of examples/own_method.py: short, exact, and known to every command by the file they are in."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import make_imageset, make_method, make_task

from anyshot.cli.main import main
from anyshot.core.code_loading import load_object
from anyshot.models.network import HEAD_PARAMETERS
from anyshot.runs.run import Run

FILE = Path(__file__).parents[1] / "examples" / "own_method.py"
NAMES = ("ANIL", "StepSizes", "LearnedOptimiser")


def example(name: str, **options: object):
    return make_method(f"{FILE}:{name}", **{"alpha": 0.1, "steps": 3, "test_steps": 4, **options})


def run(*arguments: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert not end.value.code


@pytest.mark.parametrize("name", NAMES)
def test_each_is_at_most_forty_lines(name):
    assert len(inspect.getsource(load_object(f"{FILE}:{name}")).splitlines()) <= 40


@pytest.mark.parametrize("name", NAMES)
def test_each_is_trained_resumed_and_tested_by_the_same_commands(
    name, tmp_path, monkeypatch, capsys
):
    make_imageset().save(tmp_path / "tiny")
    common = {
        "images": tmp_path / "tiny", "ood": "none", "way": 2, "shots": "any-shot:1-4", "query": 2, "steps": 2,
        "test-steps": 2, "channels": 4, "meta-batch": 1, "validate-every": 2, "validation-tasks": 2, "decay": "none",
        "checkpoint-every": 1, "method": f"{FILE}:{name}",
    }  # fmt: skip
    options = [f"--{key}={value}" for key, value in common.items()] + ["--no-tensorboard"]
    run("train", tmp_path / "whole", *options, "--iterations", 4)
    run("train", tmp_path / "parts", *options, "--iterations", 2)
    monkeypatch.chdir(tmp_path)  # what a run records does not depend on where it is asked
    run("train", "parts", "--iterations", 4)
    whole, parts = (Run(tmp_path / one).latest_checkpoint().tensors for one in ("whole", "parts"))
    assert all(torch.equal(parts[key], value) for key, value in whole.items())
    capsys.readouterr()
    run("test", "whole", "parts", "--tasks", 2)
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_meta_gradients_are_exact(name):
    method, task = example(name), make_task(shots="class-imbalance:2-5")
    gradients = torch.autograd.grad(method.objective(task).loss, list(method.parameters()), materialize_grads=True,
                                    allow_unused=True)  # fmt: skip
    h, losses = 1e-8, []
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, gradient in zip(method.parameters(), gradients, strict=True):
                parameter += sign * h * gradient
            losses.append(method.objective(task).loss)
    expected = sum((g**2).sum() for g in gradients)
    assert ((losses[0] - losses[1]) / (2 * h)).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["StepSizes", "LearnedOptimiser"])
def test_before_anything_is_learned_two_of_them_are_maml(name):
    method, maml, task = example(name), make_method("maml", alpha=0.1, test_steps=4), make_task()
    method.load_state_dict(maml.state_dict(), strict=False)
    with torch.no_grad():
        if name == "StepSizes":
            method.rate.fill_(0.1)
        else:
            method.second.zero_()
    torch.testing.assert_close(method.predict(task), maml.predict(task))
    for one in (method, maml):  # their steps see other views of the images, too
        one.settings = replace(one.settings, flips=True, zooms=(0.75,))
    torch.testing.assert_close(method.predict(task), maml.predict(task))


def test_anil_leaves_the_body_where_it_is():
    method, task = example("ANIL"), make_task()
    x, y, _, _ = method.tensors(task)
    inner = method.inner(x, y, task.way, {}, 3)
    for name, value in method.learned(inner, 2).items():
        assert torch.equal(value, inner.theta[name]) == (name not in HEAD_PARAMETERS)
