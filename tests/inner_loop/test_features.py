"""The body's features by the engine: the same values and gradients as by autograd."""

from __future__ import annotations

import pytest
import torch

from anyshot.core.errors import AnyshotError
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
def test_values_and_gradients_are_those_of_autograd(make_case, options):
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


def test_a_second_derivative_is_refused_and_not_wrong(make_case):
    case = make_case([3, 4])
    weight = case.inner.theta["conv2_weight"]
    f = features(case.inner.theta, case.inner.norm, case.images)
    (first,) = torch.autograd.grad(f.square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_what_the_engine_cannot_do_autograd_does(make_case):
    case = make_case([3, 4])
    theta = {name: value.float() for name, value in case.inner.theta.items()}
    with pytest.raises(AnyshotError, match="different types"):
        features(theta, case.inner.norm, case.images, engine="engine")
