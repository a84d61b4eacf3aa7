import pytest
import torch
import torch.nn.functional as F

from anyshot.core.errors import SettingsError
from anyshot.core.random import torch_rng
from anyshot.models.bodies.conv4 import conv4
from anyshot.models.network import (
    Body,
    Layer,
    Norm,
    embed,
    logits,
    to_float,
    zero_head,
)
from anyshot.models.norm import EPS, normalise


def network(size=(16, 16), channels=4, dtype=torch.float64):
    body = conv4(size, channels)
    theta = {
        name: value.to(dtype) for name, value in body.init_parameters(torch_rng(0), "he").items()
    }
    norm = Norm(
        [0.1 * torch.randn(channels, generator=torch_rng(1), dtype=dtype) for _ in range(4)]
    )
    return body, theta, norm


def images(n: int) -> torch.Tensor:
    return torch.rand(n, 3, 16, 16, dtype=torch.float64, generator=torch_rng(2))


def test_normalisation_uses_the_biased_variance_of_the_batch():
    y = torch.randn(5, 3, 4, 4, generator=torch_rng(0), dtype=torch.float64)
    mean, var = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(normalise(y), (y - mean) / (var + EPS).sqrt())


def test_normalisation_by_reference_images_is_a_fixed_linear_map():
    y = torch.randn(5, 3, 4, 4, generator=torch_rng(0), dtype=torch.float64)
    scale, shift = torch.tensor([1.0, 2.0, -1.0]).double(), torch.tensor([0.5, 0.0, 1.0]).double()
    found = normalise(y, scale, shift, reference_size=3)
    torch.testing.assert_close(found[:3], normalise(y[:3], scale, shift))
    torch.testing.assert_close(
        normalise(torch.cat([y[:3], y[4:]]), scale, shift, reference_size=3)[3:], found[4:]
    )
    flat = y.flatten(2).transpose(1, 2).flatten(0, 1)  # [80, channels]: a body without places
    torch.testing.assert_close(
        normalise(flat, scale, shift, reference_size=48),
        found.flatten(2).transpose(1, 2).flatten(0, 1),
    )


def test_features_by_reference_images_do_not_depend_on_the_batch():
    body, theta, norm = network()
    support, query = images(9)[:5], images(9)[5:]
    for centre in (False, True):
        together = embed(body.features, theta, norm, query, centre, support)
        alone = [embed(body.features, theta, norm, image[None], centre, support) for image in query]
        torch.testing.assert_close(together, torch.cat(alone))
        own = embed(body.features, theta, norm, support, centre)
        torch.testing.assert_close(embed(body.features, theta, norm, support, centre, support), own)


def test_centred_features_have_mean_zero():
    body, theta, norm = network()
    assert embed(body.features, theta, norm, images(6), centre=True).mean(0).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("size", "width"), [((32, 32), 128), ((84, 84), 800), ((28, 28), 32), ((33, 47), 128)]
)
def test_head_fits_any_image_size(size, width):
    body, theta, norm = network(size, 32)
    assert body.width == width
    x = torch.rand(2, 3, *size, dtype=torch.float64)
    head = zero_head(7, width, x)
    assert logits(body.features, {**theta, **head}, norm, x).shape == (2, 7)
    assert not logits(body.features, {**theta, **head}, norm, x).any()


def test_too_small_images_are_refused():
    with pytest.raises(SettingsError, match="8×8 pixels"):
        _ = conv4((8, 8)).width


def test_initialisation_of_the_paper_is_a_truncated_normal():
    theta = conv4((32, 32)).init_parameters(torch_rng(0))
    assert theta["conv2_weight"].abs().max() <= 0.04
    # truncated at two sigma, the standard deviation is 0.88 sigma
    assert abs(theta["conv2_weight"].std() - 0.02 * 0.88) < 0.001
    assert not theta["conv2_bias"].any()


def test_layers_of_a_group_share_gamma_and_the_head_is_last():
    layers = (
        Layer("a", (2, 3), "one", "a_bias"),
        Layer("b", (2, 2), "two"),
        Layer("c", (4, 2), "one"),
    )
    body = Body(
        lambda theta, norm, x: F.relu(norm(0, x.flatten(1) @ theta["a"].t())), layers, (1, 1)
    )
    assert body.layer_parameters == {
        "one": ("a", "a_bias", "c"),
        "two": ("b",),
        "head": ("head_weight", "head_bias"),
    }
    assert body.width == 2
    assert [shift.shape for shift in body.norm().shift] == [(2,), (2,), (4,)]


def test_pixels_become_floats_between_0_and_1_channels_last():
    images = torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8)
    assert to_float(images)[0, :, 0, 0].tolist() == pytest.approx([0, 0.2, 1])
    assert to_float(torch.zeros(2, 8, 8, 3, dtype=torch.uint8)).is_contiguous(
        memory_format=torch.channels_last
    )
