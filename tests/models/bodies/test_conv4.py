"""Conv4 against torch's modules."""

import torch
import torch.nn.functional as F
from torch import nn

from anyshot.core.random import torch_rng
from anyshot.models.bodies.conv4 import CONV_WEIGHTS, conv4
from anyshot.models.network import Norm
from anyshot.models.norm import EPS


def make_case(channels=4):
    body = conv4((16, 16), channels)
    theta = {
        name: value.double() for name, value in body.init_parameters(torch_rng(0), "he").items()
    }
    norm = Norm(
        [0.1 * torch.randn(channels, generator=torch_rng(1), dtype=torch.float64) for _ in range(4)]
    )
    return body, theta, norm, torch.rand(6, 3, 16, 16, dtype=torch.float64, generator=torch_rng(2))


def test_block_is_convolution_norm_shift_relu_pool():
    body, theta, norm, x = make_case()
    h = x
    for layer, weight in enumerate(CONV_WEIGHTS):
        bias = theta[weight.replace("weight", "bias")] + 3.0  # any bias cancels
        h = nn.functional.conv2d(h, theta[weight], bias, padding=1)
        h = nn.BatchNorm2d(4, EPS, affine=False, track_running_stats=False)(h)
        h = F.max_pool2d(F.relu(h + norm.shift[layer].view(1, -1, 1, 1)), 2)
    torch.testing.assert_close(body.features(theta, norm, x), h.flatten(1))
    assert h.flatten(1).shape == (6, body.width)


def test_scale_multiplies_the_output():
    body, theta, norm, x = make_case()
    ones = Norm(norm.shift, [torch.ones(4, dtype=torch.float64)] * 4)
    torch.testing.assert_close(body.features(theta, ones, x), body.features(theta, norm, x))
    double = Norm([2 * b for b in norm.shift], [torch.full((4,), 2.0, dtype=torch.float64)] * 4)
    # relu(2 x̂ + 2 β) = 2 relu(x̂ + β); the next normalisation takes the factor out, up to ε
    torch.testing.assert_close(
        body.features(theta, double, x), 2 * body.features(theta, norm, x), rtol=1e-2, atol=1e-2
    )
