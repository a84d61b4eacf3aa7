"""Conv4 with features of one length."""

import torch

import anyshot
from anyshot.core.random import torch_rng


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
