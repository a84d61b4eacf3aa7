"""The body's features by the engine: the same values and gradients as by autograd."""

from __future__ import annotations

import pytest
import torch

from anyshot.core.errors import SettingsError
from anyshot.inner_loop import features
from anyshot.models.bodies import conv4
from anyshot.models.bodies.conv4 import CONV_WEIGHTS
from anyshot.models.network import embed

CASES = {
    "plain": {},
    "centred": {"centre": True},
    "scaled, also by negative numbers": {"scale": True},
    "with the support's statistics": {"transductive": False},
    "with the support's, centred and scaled": {
        "transductive": False,
        "centre": True,
        "scale": True,
    },
    "two pixels wide at the end": {"size": (37, 32)},
    "by torch's operators": {"channels": 4},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_features_and_their_gradients_equal_autograd(make_case, options):
    case = make_case([3, 4], **options)
    inner, images = case.inner, case.images
    leaves = [
        *(inner.theta[name] for name in CONV_WEIGHTS),
        *inner.norm.shift,
        *(inner.norm.scale or ()),
    ]
    found, gradients = [], []
    for engine in ("engine", "autograd"):
        f = features(inner.theta, inner.norm, images, inner.centre, inner.reference(), engine)
        found.append(f)
        gradients.append(torch.autograd.grad(f.cos().sum(), leaves))
    torch.testing.assert_close(*found)
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-9)


def test_without_a_gradient_there_is_no_graph(make_case):
    case = make_case([3, 4])
    with torch.no_grad():
        f = features(case.inner.theta, case.inner.norm, case.images)
    assert not f.requires_grad
    torch.testing.assert_close(
        f, embed(conv4.features, case.inner.theta, case.inner.norm, case.images)
    )


@pytest.mark.parametrize("transductive", [True, False])
def test_second_derivatives_equal_autograd(make_case, transductive):
    case = make_case([3, 4], (20, 20), transductive=transductive, scale=True)
    inner = case.inner
    weights = [inner.theta[name] for name in CONV_WEIGHTS]
    found = []
    for engine in ("auto", "autograd"):
        f = features(inner.theta, inner.norm, case.images, False, inner.reference(), engine)
        first = torch.autograd.grad(f.square().sum(), weights, create_graph=True)
        penalty = sum(g.square().sum() for g in first)
        found.append(torch.autograd.grad(penalty, [*weights, *inner.norm.shift]))
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def test_a_required_engine_refuses_a_second_derivative(make_case):
    case = make_case([3, 4], (20, 20))
    weight = case.inner.theta["conv2_weight"]
    f = features(case.inner.theta, case.inner.norm, case.images, engine="engine")
    with pytest.raises(SettingsError, match=r"second derivative of features .*engine='autograd'"):
        torch.autograd.grad(f.square().sum(), weight, create_graph=True)


def test_different_types_are_refused_by_the_engine(make_case):
    case = make_case([3, 4])
    theta = {name: value.float() for name, value in case.inner.theta.items()}
    with pytest.raises(SettingsError, match="different types"):
        features(theta, case.inner.norm, case.images, engine="engine")
