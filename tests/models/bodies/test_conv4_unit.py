"""Conv4 with features of one length."""

import pytest
import torch

import anyshot
from anyshot.core.random import torch_rng
from anyshot.inner_loop import features
from anyshot.models.network import embed


def test_features_are_those_of_conv4_at_length_root_width():
    body = anyshot.create_body("conv4-unit", (32, 32), channels=4)
    conv4 = anyshot.create_body("conv4", (32, 32), channels=4)
    theta = body.init_parameters(torch_rng(0), "he")
    images = torch.rand(3, 3, 32, 32, generator=torch_rng(1))
    features = body.features(theta, body.norm(), images)
    plain = conv4.features(theta, body.norm(), images)
    assert body.width == conv4.width
    torch.testing.assert_close(features.norm(dim=1), torch.full((3,), body.width**0.5))
    cosine = torch.nn.functional.cosine_similarity(features, plain)
    torch.testing.assert_close(cosine, torch.ones(3))


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("with_reference", [False, True])
def test_the_engine_computes_the_features_and_their_gradients(centre, with_reference):
    body = anyshot.create_body("conv4-unit", (32, 32), channels=4)
    start = body.init_parameters(torch_rng(0), "he")
    images, other = torch.rand(2, 5, 3, 32, 32, generator=torch_rng(1), dtype=torch.float64)
    reference = other if with_reference else None
    norm = anyshot.Norm([shift.double() for shift in body.norm().shift])
    results = []
    for engine in ("engine", "autograd"):
        theta = {name: value.double().requires_grad_() for name, value in start.items()}
        f = features(theta, norm, images, centre, reference, engine, body.features)
        weights = [theta[f"conv{layer}_weight"] for layer in (1, 4)]
        results.append((f.detach(), *torch.autograd.grad((f**3).sum(), weights)))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two)
    theta = {name: value.double() for name, value in start.items()}
    expected = embed(body.features, theta, norm, images, centre, reference)
    torch.testing.assert_close(results[0][0], expected)


def test_a_method_with_second_order_can_be_created_without_gradients():
    settings = anyshot.MethodSettings(name="meta-sgd", body="conv4-unit", channels=4)
    with torch.no_grad():  # as in tests of a run
        assert anyshot.create_method(settings).body.width == 16
