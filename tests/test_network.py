import pytest
import torch
import torch.nn.functional as F

from anyshot.network import CONV_WEIGHTS, EPS, Norm, Shape, body, logits, normalise, start_body, to_float, zero_head
from anyshot.tasks import torch_rng


def network(size=(16, 16), channels=4, dtype=torch.float64):
    shape = Shape(size, channels)
    theta = {name: value.to(dtype) for name, value in start_body(shape, torch_rng(0), "he").items()}
    norm = Norm([0.1 * torch.randn(channels, generator=torch_rng(1), dtype=dtype) for _ in range(4)])
    return shape, theta, norm


def test_normalisation_uses_the_biased_variance_of_the_set_in_hand():
    y = torch.randn(5, 3, 4, 4, generator=torch_rng(0), dtype=torch.float64)
    mean, var = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(normalise(y), (y - mean) / (var + EPS).sqrt())


def test_the_body_is_conv_norm_shift_relu_pool():
    shape, theta, norm = network()
    x = torch.rand(6, 3, 16, 16, dtype=torch.float64, generator=torch_rng(2))
    h = x
    for layer, weight in enumerate(CONV_WEIGHTS):
        h = F.conv2d(h, theta[weight], theta[weight.replace("weight", "bias")] + 3.0, padding=1)  # any bias cancels
        h = F.max_pool2d(F.relu(normalise(h) + norm.shift[layer].view(1, -1, 1, 1)), 2)
    torch.testing.assert_close(body(theta, norm, x), h.flatten(1))
    assert body(theta, norm, x).shape == (6, shape.features)


def test_centred_features_have_mean_zero_and_scale_scales():
    _, theta, norm = network()
    x = torch.rand(6, 3, 16, 16, dtype=torch.float64, generator=torch_rng(2))
    assert body(theta, norm, x, centre=True).mean(0).abs().max() < 1e-12
    ones = Norm(norm.shift, [torch.ones(4, dtype=torch.float64)] * 4)
    torch.testing.assert_close(body(theta, ones, x), body(theta, norm, x))
    double = Norm([2 * b for b in norm.shift], [torch.full((4,), 2.0, dtype=torch.float64)] * 4)
    # relu(2 x̂ + 2 β) = 2 relu(x̂ + β); the next normalisation takes the factor out, up to ε
    torch.testing.assert_close(body(theta, double, x), 2 * body(theta, norm, x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("size", "features"), [((32, 32), 128), ((84, 84), 800), ((28, 28), 32), ((33, 47), 128)])
def test_the_head_fits_any_image_size(size, features):
    shape, theta, norm = network(size, 32)
    assert shape.features == features
    x = torch.rand(2, 3, *size, dtype=torch.float64)
    head = zero_head(7, features, x)
    assert logits({**theta, **head}, norm, x).shape == (2, 7)
    assert not logits({**theta, **head}, norm, x).any()


def test_the_paper_start_is_a_truncated_normal():
    weights = start_body(Shape((32, 32)), torch_rng(0))["conv2_weight"]
    assert weights.abs().max() <= 0.04
    assert abs(weights.std() - 0.02 * 0.88) < 0.001  # cut at two sigma, the deviation is 0.88 sigma
    assert not start_body(Shape((32, 32)), torch_rng(0))["conv2_bias"].any()


def test_images_become_floats_between_0_and_1_channels_last():
    images = torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8)
    assert to_float(images)[0, :, 0, 0].tolist() == pytest.approx([0, 0.2, 1])
    assert to_float(torch.zeros(2, 8, 8, 3, dtype=torch.uint8)).is_contiguous(memory_format=torch.channels_last)
