"""The gradient as a differentiable function, against autograd and finite differences in float64."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from anyshot.core.errors import SettingsError
from anyshot.inner_loop import cross_entropy, gradient
from anyshot.inner_loop.engine import network as engine
from anyshot.inner_loop.engine.parameters import NAMES
from anyshot.inner_loop.update_rule import update
from anyshot.models.network import Norm

VARIANTS = {
    "zero head": {},
    "a head of its own": {"head": True},
    "centred": {"head": True, "centre": True},
    "scales of both signs": {"head": True, "scale": True},
    "zero head, centred, scales": {"centre": True, "scale": True},
    "by torch's operators": {"head": True, "channels": 5, "scale": True},
}


def at_start(case, way, **changes):
    inner = case.inner
    given = {"theta": inner.theta, "weights": inner.weights, "norm": inner.norm, **changes}
    return gradient(
        given["theta"],
        inner.images,
        inner.labels,
        given["weights"],
        given["norm"],
        centre=inner.centre,
        engine=way,
    )


def weighted_sum(g):
    """A scalar that depends on each element of g in its own way."""
    total = 0.0
    for value in g.values():
        factors = torch.linspace(1, 2, value.numel(), dtype=value.dtype).cos()
        total = total + (value * factors.view_as(value)).sum()
    return total


@pytest.mark.parametrize("cotangents", ["of g", "of the loss", "of both"])
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_gradient_and_its_derivatives_equal_autograd(make_case, differences, options, cotangents):
    case, found = make_case([1, 3, 2], (20, 20), **options), []
    for way in ("engine", "autograd"):
        g, loss = at_start(case, way)
        total = (cotangents != "of the loss") * weighted_sum(g) + (
            cotangents != "of g"
        ) * 3 * loss.square()
        derivatives = case.gradients(total)
        found.append(
            {
                **g,
                "loss": loss,
                **{f"d {n}": t for n, t in derivatives.items() if not n.startswith("rate")},
            }
        )
    zeros = {
        name: torch.zeros_like(case.leaves[name[2:]]) for name in found[0] if name.startswith("d ")
    }
    full = [{name: zeros[name] if t is None else t for name, t in part.items()} for part in found]
    assert {name: error for name, error in differences(*full).items() if not error < 1e-10} == {}
    assert full[0]["d weights"].abs().max() > 0


@pytest.mark.parametrize(
    "options", [{"head": True, "channels": 4}, {"head": True, "channels": 16, "centre": True}]
)
def test_first_and_second_derivatives_agree_with_finite_differences(make_case, options):
    case = make_case([1, 2], (16, 16), **options)
    names, inner = list(NAMES), case.inner

    def theta_of(values):
        return inner.theta | dict(zip(names, values[: len(names)], strict=True))

    def g(*values):
        found, loss = at_start(
            case, "engine", theta=theta_of(values), weights=values[6], norm=Norm(values[7:])
        )
        return loss, *(found[name] for name in names)

    def losses(*values):
        norm = Norm([t.detach() for t in inner.norm.shift])
        return cross_entropy(
            theta_of(values), inner.images, inner.labels, norm, centre=inner.centre, engine="engine"
        )[0]

    values = tuple(inner.theta[name] for name in names)
    check = {"fast_mode": True, "eps": 1e-7, "atol": 1e-5}
    assert torch.autograd.gradcheck(g, (*values, inner.weights, *inner.norm.shift), **check)
    assert torch.autograd.gradgradcheck(losses, values, **check)


def test_an_update_rule_in_plain_torch_has_exact_meta_gradients(make_case, differences):
    """Momentum, a step size per step, a mask, noise on the weights, and inner losses."""
    case, found = make_case([2, 3], (20, 20), scale=True), []
    inner = case.inner
    rates = torch.tensor([0.03, 0.02, 0.05], dtype=torch.float64, requires_grad=True)
    for way in ("engine", "autograd"):
        theta, velocity, total = inner.theta, dict.fromkeys(inner.theta, 0.0), 0.0
        for k, rate in enumerate(rates):
            noisy = {
                name: value + 0.01 * torch.ones_like(value) * (k + 1)
                for name, value in theta.items()
            }
            g, loss = at_start(case, way, theta=noisy)
            velocity = {name: 0.5 * velocity[name] + g[name] * (g[name] > 0) for name in theta}
            theta = {name: value - rate * velocity[name] for name, value in theta.items()}
            total = total + 0.1 * loss
        losses, _ = cross_entropy(theta, case.images, case.labels, inner.norm, engine=way)
        leaves = {
            n: t for n, t in case.leaves.items() if not n.startswith("rate") and "bias" not in n
        }
        leaves["rates"] = rates
        gradients = torch.autograd.grad(total + losses.mean(), list(leaves.values()))
        found.append(dict(zip(leaves, gradients, strict=True)))
    assert max(differences(*found).values()) < 1e-10


def test_cross_entropy_is_differentiable_twice_by_autograd(make_case, differences):
    """By torch.autograd.grad with create_graph, twice through one forward pass."""
    case, found = make_case([2, 3], (20, 20), head=True), []
    theta = {name: case.inner.theta[name] for name in NAMES}
    for way in ("engine", "autograd"):
        losses, _ = cross_entropy(
            case.inner.theta, case.images, case.labels, case.inner.norm, engine=way
        )
        weights = case.inner.weights[: len(losses)].sum() * losses.detach()
        first = torch.autograd.grad(weights @ losses, list(theta.values()), create_graph=True)
        other = torch.autograd.grad(losses.square().sum(), list(theta.values()), create_graph=True)
        total = weighted_sum(dict(zip(theta, first, strict=True))) + weighted_sum(
            dict(zip(theta, other, strict=True))
        )
        derivatives = torch.autograd.grad(total, [*theta.values(), case.inner.weights])
        found.append({str(i): t for i, t in enumerate(derivatives)})
    assert max(differences(*found).values()) < 1e-10


@pytest.mark.parametrize("way", ["engine", "autograd"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_there_is_no_graph_and_the_numbers_are_the_same(make_case, way, mode):
    case = make_case([1, 2], (20, 20), head=True, scale=True)
    expected, loss = at_start(case, way)
    with mode():
        g, same = at_start(case, way)
        theta = {name: value * 1.0 for name, value in case.inner.theta.items()}  # made inside
        again, _ = at_start(case, way, theta=theta)
    assert torch.equal(loss, same)
    assert not any(t.requires_grad for t in (same, *g.values()))
    assert all(
        torch.equal(expected[name], g[name]) and torch.equal(g[name], again[name]) for name in g
    )


def test_a_steps_activations_are_freed_by_the_backward_pass(make_case, monkeypatch):
    nets: list[weakref.ref] = []
    plain = engine.Net.__init__
    monkeypatch.setattr(
        engine.Net, "__init__", lambda net, *a: (plain(net, *a), nets.append(weakref.ref(net)))[0]
    )

    def alive():
        gc.collect()
        return [net() is not None for net in nets]

    case = make_case([1, 2], (20, 20))
    rates = {name: rate.detach() for name, rate in case.inner.rates.items()}
    theta = update(
        case.inner.theta, lambda theta, _: at_start(case, "engine", theta=theta)[0], rates, 2
    )
    at_the_start = []
    case.inner.theta["conv1_weight"].register_hook(lambda _: at_the_start.append(alive()))
    loss = cross_entropy(theta, case.images, case.labels, case.inner.norm)[0].mean()
    assert alive() == [True] * 3
    loss.backward(retain_graph=True)
    assert at_the_start.pop() == [True] * 3
    loss.backward()
    assert at_the_start.pop() == [False] * 3
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_images_that_change_in_place_are_read_again(make_case):
    case = make_case([1, 2], (20, 20), head=True)
    before = at_start(case, "engine")[1]
    case.inner.images.mul_(0.5)
    after = at_start(case, "engine")[1]
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, at_start(case, "autograd")[1], rtol=1e-10, atol=0)


def test_parameters_that_the_network_does_not_use_get_a_zero_gradient(make_case):
    case = make_case([1, 2], (20, 20))
    for way in ("engine", "autograd"):
        g, _ = at_start(case, way, theta=case.inner.theta | {"other": torch.ones(3).double()})
        assert list(g) == [*case.inner.theta, "other"]
        assert not g["other"].any()
        assert not g["conv2_bias"].any()


# ---------------------------------------------------------------------- errors
def test_a_required_engine_refuses_second_derivatives_that_it_does_not_have(make_case):
    case = make_case([1, 2], (20, 20), head=True, scale=True)
    inner = case.inner
    options = {"norm": inner.norm, "engine": "engine"}
    losses, _ = cross_entropy(inner.theta, case.images, case.labels, **options)
    (on_shift,) = torch.autograd.grad(losses.sum(), inner.norm.shift[1], create_graph=True)
    with pytest.raises(SettingsError, match=r"β or a scale .*engine='autograd'"):
        on_shift.sum().backward()
    losses, _ = cross_entropy(
        inner.theta, case.images, case.labels, reference=inner.images, **options
    )
    (on_theta,) = torch.autograd.grad(losses.sum(), inner.theta["conv3_weight"], create_graph=True)
    with pytest.raises(SettingsError, match="another set's batch statistics"):
        on_theta.sum().backward()


@pytest.mark.parametrize("way", ["engine", "autograd"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"labels": torch.tensor([0.0, 1.0, 1.0])},
            r"float32 \[3\]",
        ),
        ({"labels": torch.tensor([0, 1])}, r"\[2\]; .* 3 images"),
        ({"labels": torch.tensor([0, 1, 2])}, "from 0 to 2; .* 2 classes"),
        ({"labels": torch.tensor([-1, 1, 1])}, "from -1 to 1"),
        ({"weights": torch.ones(2)}, r"weights .* \[2\]"),
        (
            {"theta": ("conv3_weight", "head_bias")},
            "θ has no conv3_weight, head_bias",
        ),
    ],
)
def test_wrong_arguments_are_errors(make_case, way, change, message):
    inner = make_case([1, 2], (20, 20)).inner
    without = {
        name: value for name, value in inner.theta.items() if name not in change.get("theta", ())
    }
    labels, weights = change.get("labels", inner.labels), change.get("weights", inner.weights)
    with pytest.raises(SettingsError, match=message):
        gradient(without, inner.images, labels, weights, inner.norm, engine=way)


def test_an_update_without_a_step_size_is_an_error(make_case):
    theta = make_case([1, 2], (20, 20)).inner.theta
    with pytest.raises(SettingsError, match=r"conv1_bias, .*rates has only conv1_weight"):
        update(theta, lambda theta, k: theta, {"conv1_weight": torch.ones(())}, 1)
