"""Third derivatives, and second ones with respect to β, against autograd."""

from __future__ import annotations

import logging

import pytest
import torch
from support import make_method, make_task

from anyshot.core.errors import SettingsError
from anyshot.inner_loop import cross_entropy, fallback, gradient
from anyshot.methods.maml import MAML
from anyshot.training.meta_training import task_gradients

OPTIONS = {
    "zero head": {},
    "head, centred, scales": {"head": True, "centre": True, "scale": True},
    "torch operators": {"head": True, "channels": 4},
}


def support_gradient(inner, theta, engine):
    g, _ = gradient(
        theta,
        inner.images,
        inner.labels,
        inner.weights,
        inner.norm,
        centre=inner.centre,
        engine=engine,
    )
    return g


def newton_step(theta, g):
    """θ − 0.1 (g + 0.1 H g): a Hessian-vector product inside the update rule."""
    names = [name for name in theta if theta[name].requires_grad and g[name].requires_grad]
    direction = [g[name].detach() for name in names]
    hvp = torch.autograd.grad(
        [g[name] for name in names],
        [theta[name] for name in names],
        direction,
        create_graph=True,
        allow_unused=True,
    )
    curvature = {name: h for name, h in zip(names, hvp, strict=True) if h is not None}
    return {
        name: value - 0.1 * (g[name] + 0.1 * curvature.get(name, torch.zeros_like(value)))
        for name, value in theta.items()
    }


def penalised_step(theta, g):
    """θ − 0.1 ∇ ‖g‖²: a gradient penalty."""
    names = [name for name in theta if theta[name].requires_grad]
    penalty = sum(value.square().sum() for value in g.values())
    steps = torch.autograd.grad(
        penalty, [theta[name] for name in names], create_graph=True, allow_unused=True
    )
    found = {name: step for name, step in zip(names, steps, strict=True) if step is not None}
    return {
        name: value - 0.1 * found.get(name, torch.zeros_like(value))
        for name, value in theta.items()
    }


@pytest.mark.parametrize("rule", [newton_step, penalised_step])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_rules_with_second_derivatives_have_the_meta_gradients_of_autograd(
    make_case, differences, rule, options
):
    case, found = make_case([1, 3, 2], (20, 20), **options), []
    for engine in ("auto", "autograd"):
        theta = case.inner.theta
        for _ in range(2):
            theta = rule(theta, support_gradient(case.inner, theta, engine))
        losses, _ = cross_entropy(
            theta,
            case.images,
            case.labels,
            case.inner.norm,
            centre=case.inner.centre,
            engine=engine,
        )
        found.append(case.gradients(losses.mean()))
    assert max(differences(*found).values()) < 1e-10
    if rule is newton_step or options:
        assert found[0]["conv1_weight"].norm() > 0  # a penalty never moves a constant zero head


def test_a_third_derivative_equals_a_finite_difference(make_case):
    case = make_case([1, 2], (16, 16), head=True, channels=16)
    inner = case.inner
    name = "conv3_weight"
    noise = torch.Generator().manual_seed(1)
    v, u = (torch.randn(inner.theta[name].shape, generator=noise).double() for _ in range(2))

    def hessian_product(value):
        g = support_gradient(inner, inner.theta | {name: value}, "auto")[name]
        return torch.autograd.grad(g, value, v, create_graph=True)[0]

    start = inner.theta[name].detach().requires_grad_()
    [third] = torch.autograd.grad((hessian_product(start) * v).sum(), start)
    eps = 1e-8  # small enough that no ReLU changes its state
    ahead, behind = (
        (hessian_product((start + sign * eps * u).detach().requires_grad_()) * v).sum().item()
        for sign in (1, -1)
    )
    assert (third * u).sum().item() == pytest.approx((ahead - behind) / (2 * eps), rel=1e-4)


def test_steps_on_the_shift_have_the_meta_gradients_of_autograd(make_case, differences):
    case, found = make_case([2, 3], (20, 20), head=True, scale=True), []
    inner = case.inner
    for engine in ("auto", "autograd"):
        losses, _ = cross_entropy(
            inner.theta, inner.images, inner.labels, inner.norm, engine=engine
        )
        on_shift = torch.autograd.grad(losses.mean(), inner.norm.shift, create_graph=True)
        total = sum(g.square().sum() for g in on_shift)
        found.append(case.gradients(total))
    assert max(differences(*found).values()) < 1e-10


def test_second_derivatives_with_another_sets_statistics_equal_autograd(make_case, differences):
    case, found = make_case([2, 3], (20, 20), head=True), []
    inner = case.inner
    weights = [inner.theta[f"conv{i}_weight"] for i in (1, 2, 3, 4)]
    for engine in ("auto", "autograd"):
        losses, _ = cross_entropy(
            inner.theta,
            case.images,
            case.labels,
            inner.norm,
            reference=inner.images,
            engine=engine,
        )
        first = torch.autograd.grad(losses.mean(), weights, create_graph=True)
        found.append(case.gradients(sum(g.square().sum() for g in first)))
    assert max(differences(*found).values()) < 1e-10


def test_a_required_engine_refuses_a_third_derivative(make_case):
    inner = make_case([1, 2], (16, 16), head=True).inner
    g = support_gradient(inner, inner.theta, "engine")
    with pytest.raises(SettingsError, match=r"third derivative .*engine='autograd'"):
        newton_step(inner.theta, g)


class NewtonMAML(MAML):
    """MAML with a Hessian-vector product in its update rule."""

    def adapted_parameters(self, inner, order):
        theta = {name: value * 1.0 for name, value in inner.theta.items()}
        theta |= {n: t.requires_grad_() for n, t in theta.items() if not t.requires_grad}
        for step in range(inner.steps):
            theta = newton_step(theta, self.gradient(inner, theta, 2, step))
        return theta


def test_task_gradients_of_a_newton_rule_equal_autograd(caplog, monkeypatch):
    monkeypatch.setattr(fallback, "_logged_reasons", set())
    method, task = make_method("maml", alpha=0.1, steps=2, start="he"), make_task()
    method.__class__ = NewtonMAML
    found = []
    with caplog.at_level(logging.WARNING, "anyshot.inner_loop"):
        for method.engine in ("auto", "autograd"):
            found.append(task_gradients(method, task)[0])
    for left, right in zip(*found, strict=True):
        assert (left - right).abs().max() <= 1e-10 * right.abs().max()
    assert caplog.text.count("a third derivative is needed") == 1
