"""Heads: MAML's learned one, and heads that are not linear."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from support import make_method, make_task
from tiny_runs import tiny, train_tiny

import anyshot
from anyshot import MAML, MethodSettings, create_method
from anyshot.core.errors import DataError, SettingsError
from anyshot.core.random import torch_rng
from anyshot.methods.balancing import apply_gamma
from anyshot.training.meta_training import task_gradients


def make_learned(name: str = "maml", way: int | None = 3, **values):
    options = {"learned_head": True}
    settings = MethodSettings(name=name, channels=4, alpha=0.1, steps=2, options=options)
    return create_method(settings.with_values(values), (16, 16), way=way).double()


@pytest.mark.parametrize("name", ["maml", "anil"])
def test_learned_head_has_the_gradient_of_plain_autograd(name):
    method, task = make_learned(name), make_task()
    support, labels, query, query_labels = method.task_tensors(task)
    start = {**dict(method.theta), **dict(method.initial_head)}
    theta = dict(start)

    def loss(theta, x, y):
        scores = F.linear(
            method.body.features(theta, method.norm, x), theta["head_weight"], theta["head_bias"]
        )
        return F.cross_entropy(scores, y)

    for _ in range(2):
        at = list(theta.values())
        g = torch.autograd.grad(
            loss(theta, support, labels), at, create_graph=True, allow_unused=True,
            materialize_grads=True,
        )  # fmt: skip
        moves = [name == "maml" or key.startswith("head") for key in theta]
        theta = {
            key: value - 0.1 * d * move
            for (key, value), d, move in zip(theta.items(), g, moves, strict=True)
        }
    value = loss(theta, query, query_labels)
    expected = torch.autograd.grad(
        value, list(start.values()), allow_unused=True, materialize_grads=True
    )
    gradients, numbers = task_gradients(method, task)
    assert numbers["loss"] == pytest.approx(value.item(), rel=1e-10)
    names = [key.partition(".")[2] for key, _ in method.named_parameters()]
    actual = dict(zip(names, gradients, strict=True))
    for key, g in zip(start, expected, strict=True):
        torch.testing.assert_close(actual[key], g, rtol=1e-9, atol=1e-12, msg=key)
    assert actual["head_weight"].abs().max() > 0


def test_learned_head_needs_its_number_of_classes():
    with pytest.raises(SettingsError, match="way"):
        make_learned(way=None)
    method = make_learned(way=3)
    assert method.predict(make_task(way=3)).shape[1] == 3
    with pytest.raises(DataError, match=r"2 classes.*for 3"):
        method.predict(make_task(way=2))


def test_zero_head_of_maml_is_the_default_and_has_no_parameters():
    assert not [name for name in make_method("maml").state_dict() if "head" in name]


def test_constructor_of_a_method_finds_the_way_of_its_run(tmp_path, monkeypatch):
    ways = []

    class Asks(MAML):
        def __init__(self, settings, body, generator):
            super().__init__(settings, body, generator)
            ways.append(self.way)

    monkeypatch.setattr(anyshot.METHODS, "_registered", {})
    anyshot.METHODS.register("asks")(Asks)
    run = train_tiny(tiny("asks", iterations=1), tmp_path / "run")  # 2-way tasks
    run.load_method()
    assert set(ways) == {2}


def test_run_with_a_learned_head_is_trained_and_loaded(tmp_path):
    settings = tiny("maml", iterations=2)
    settings = replace(settings, method=settings.method.with_values({"learned_head": True}))
    method = train_tiny(settings, tmp_path / "run").load_method()
    assert method.initial_head["head_weight"].shape == (2, method.body.width)
    assert method.initial_head["head_bias"].abs().min() > 0  # it was 0 at the start


class Cosine(MAML):
    """A head without a bias."""

    def head(self, theta, norm, images, labels, way):
        weight = torch.randn(way, self.body.width, generator=torch_rng(0)).to(images)
        return {"head_weight": weight}

    def class_scores(self, theta, features):
        return 5 * F.linear(F.normalize(features), F.normalize(theta["head_weight"]))


@pytest.mark.parametrize("name", ["maml", "taml"])
def test_head_that_is_not_linear_has_the_gradient_of_finite_differences(name):
    base = make_method(name, alpha=0.01, steps=2)
    cls = type("Own", (type(base),), {n: vars(Cosine)[n] for n in ("head", "class_scores")})
    method = cls(base.settings, base.body, torch.Generator()).double()
    method.load_state_dict(base.state_dict())
    task = make_task(shots="fixed:3")
    parameters = list(method.parameters())
    gradients, _ = task_gradients(method, task)

    def objective():
        result = method.objective(task)
        return (result.loss + result.penalty).item()

    h, values = 1e-8, []
    norm = sum((g**2).sum() for g in gradients).sqrt()
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, g in zip(parameters, gradients, strict=True):
                parameter += sign * h * g / norm
            values.append(objective())
    assert (values[0] - values[1]) / (2 * h) == pytest.approx(norm.item(), rel=1e-5)


def test_gamma_of_the_head_multiplies_all_its_rates():
    method = make_method("taml")
    rates = {**method.rates(), "head_scale": torch.tensor(0.5)}
    phi = {"gamma": torch.arange(5.0).double()}
    scaled = apply_gamma(rates, phi, method.body)
    assert scaled["head_scale"].item() == pytest.approx(0.5 * torch.tensor(4.0).exp().item())
    torch.testing.assert_close(
        scaled["conv2_weight"], rates["conv2_weight"] * torch.tensor(1.0).double().exp()
    )
