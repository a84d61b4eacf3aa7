"""Subclasses of Norm, reference sizes, autocast, torch.func: honoured, by autograd where needed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F

from anyshot.inner_loop import adapt, cross_entropy, fallback, features, gradient, query_loss
from anyshot.models.bodies import conv4
from anyshot.models.network import Norm, logits


@dataclass(frozen=True)
class GroupNorm(Norm):
    """Statistics of each image alone, in groups of channels."""

    groups: int = 2

    def __call__(self, layer, y):
        return F.group_norm(y, self.groups) + self.shift[layer].view(1, -1, 1, 1)


class ScaledNorm(Norm):
    """A subclass that is not a dataclass, with an attribute of its own."""

    def __call__(self, layer, y):
        return self.factor * super().__call__(layer, y)


def scaled_norm(norm, factor=0.5):
    changed = ScaledNorm(norm.shift, norm.scale)
    object.__setattr__(changed, "factor", factor)
    return changed


def plain_gradient(inner, norm):
    """∇_θ of the support loss, written down once more."""
    names = [name for name, value in inner.theta.items() if value.requires_grad]
    scores = logits(conv4.features, inner.theta, norm, inner.images, inner.centre)
    loss = (inner.weights * F.cross_entropy(scores, inner.labels, reduction="none")).sum()
    gradients = torch.autograd.grad(
        loss, [inner.theta[name] for name in names], materialize_grads=True
    )
    return dict(zip(names, gradients, strict=True)), loss


def assert_equal_gradients(found, expected):
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-10, atol=1e-12)


CHANGES = {
    "a dataclass": lambda norm: GroupNorm(norm.shift, groups=4),
    "another subclass": scaled_norm,
    "a reference size": lambda norm: replace(norm, reference_size=3),
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("engine", ["auto", "autograd"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_normalisation_is_used_for_the_gradient(make_case, change, engine, mode):
    inner = make_case([2, 3], (20, 20), head=True).inner
    norm = change(inner.norm)
    expected, loss = plain_gradient(inner, norm)
    arguments = (inner.theta, inner.images, inner.labels, inner.weights)
    with mode():
        found, found_loss = gradient(*arguments, norm, engine=engine)
    assert_equal_gradients(found, expected)
    torch.testing.assert_close(found_loss, loss, check_dtype=False)
    plain, _ = gradient(*arguments, inner.norm, engine=engine)
    assert not torch.allclose(plain["conv2_weight"], expected["conv2_weight"], rtol=1e-3)


def test_a_subclass_made_in_inference_mode_keeps_its_attributes(make_case):
    inner = make_case([2, 3], (20, 20), head=True).inner
    expected, _ = plain_gradient(inner, scaled_norm(inner.norm))
    with torch.inference_mode():
        norm = scaled_norm(Norm([t * 1.0 for t in inner.norm.shift]))
        found, _ = gradient(inner.theta, inner.images, inner.labels, inner.weights, norm)
    assert_equal_gradients(found, expected)


def test_query_loss_and_features_use_a_subclass_of_norm(make_case, differences):
    case = make_case([2, 3], (20, 20), head=True)
    norm = GroupNorm(case.inner.norm.shift)
    case = replace(case, inner=replace(case.inner, norm=norm))
    found = [
        case.gradients(query_loss(case.inner, case.images, case.labels, engine=engine)[0])
        for engine in ("auto", "autograd")
    ]
    assert max(differences(*found).values()) < 1e-10
    with torch.no_grad():
        f = features(case.inner.theta, norm, case.images)
        torch.testing.assert_close(f, conv4.features(case.inner.theta, norm, case.images))


def test_a_subclass_keeps_its_attributes_with_a_reference_set(make_case):
    inner = make_case([2, 3], (20, 20), head=True).inner
    norm = scaled_norm(inner.norm)
    arguments = (inner.theta, inner.images, inner.labels, norm)
    own, _ = cross_entropy(*arguments)
    found, _ = cross_entropy(*arguments, reference=inner.images)
    torch.testing.assert_close(found, own)  # its own images as the reference set


# ---------------------------------------------------------------------- autocast
def test_under_autocast_autograd_computes_with_one_log_line(make_case, caplog, monkeypatch):
    monkeypatch.setattr(fallback, "_logged_reasons", set())
    case = make_case([2, 3], (20, 20), head=True, dtype=torch.float32)
    expected, _ = query_loss(case.inner, case.images, case.labels)
    gradients = case.gradients(expected)
    with (
        caplog.at_level(logging.WARNING, "anyshot.inner_loop"),
        torch.autocast("cpu", torch.bfloat16),
    ):
        for _ in range(2):
            loss, _ = query_loss(case.inner, case.images, case.labels)
        adapt(case.inner)
    assert caplog.text.count("autocast is active") == 1
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.05)
    name = "conv4_weight"
    found = case.gradients(loss)[name]
    assert F.cosine_similarity(found.flatten(), gradients[name].flatten(), dim=0) > 0.9


# ---------------------------------------------------------------------- torch.func
def test_torch_func_grad_of_the_query_loss_equals_autograd(make_case, caplog, monkeypatch):
    monkeypatch.setattr(fallback, "_logged_reasons", set())
    case = make_case([2, 3], (20, 20), head=True)
    inner = case.inner

    def loss(theta):
        g, _ = gradient(theta, inner.images, inner.labels, inner.weights, inner.norm)
        theta = {name: value - 0.1 * g[name] for name, value in theta.items()}
        return cross_entropy(theta, case.images, case.labels, inner.norm)[0].mean()

    expected = case.gradients(loss(inner.theta))
    start = {name: value.detach() for name, value in inner.theta.items()}
    with caplog.at_level(logging.WARNING, "anyshot.inner_loop"):
        found = torch.func.grad(loss)(start)
    for name in start:
        right = expected[name]
        right = torch.zeros_like(start[name]) if right is None else right
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-11)
    assert caplog.text.count("torch.func transform") == 1


def test_torch_func_vmap_over_tasks_equals_a_loop(make_case):
    inner = make_case([2, 3], (20, 20), head=True).inner
    start = {name: value.detach() for name, value in inner.theta.items()}
    norm = Norm([t.detach() for t in inner.norm.shift])
    images = torch.stack([inner.images, inner.images.flip(3)])
    labels = torch.stack([inner.labels, inner.labels.flip(0)])
    weights = inner.weights.detach()

    def step(x, y):
        g, loss = gradient(start, x, y, weights, norm)
        return g["conv2_weight"], loss

    found = torch.func.vmap(step)(images, labels)
    for i in range(2):
        for left, right in zip(found, step(images[i], labels[i]), strict=True):
            torch.testing.assert_close(left[i], right, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward mode inside torch
def test_torch_func_jvp_of_the_gradient_is_a_hessian_vector_product(make_case):
    inner = make_case([2, 3], (20, 20), head=True).inner
    name = "conv3_weight"
    start = inner.theta[name].detach()
    direction = torch.ones_like(start)
    rest = {n: t.detach() for n, t in inner.theta.items()}

    def g(value):
        arguments = (inner.images, inner.labels, inner.weights.detach())
        return gradient(rest | {name: value}, *arguments, inner.norm)[0][name]

    _, product = torch.func.jvp(g, (start,), (direction,))
    leaf = start.clone().requires_grad_()
    [expected] = torch.autograd.grad(g(leaf), leaf, direction)
    torch.testing.assert_close(product, expected, rtol=1e-9, atol=1e-11)
