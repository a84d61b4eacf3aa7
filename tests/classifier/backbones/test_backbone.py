"""Backbones given as modules, functions or Backbone objects."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from anyshot.classifier.backbones import (
    Backbone,
    compute_features,
    efficientnet_lite,
    open_backbone,
)
from anyshot.classifier.backbones.feature_cache import cache_path
from anyshot.core.errors import ClassifierError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))


def random_images(n):
    return list(np.random.default_rng(0).integers(0, 255, (n, 6, 6, 3), np.uint8))


def test_a_module_sees_floats_from_0_to_1():
    module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    white = compute_features([np.full((4, 4, 3), 255, np.uint8)], open_backbone(module, side=4))
    expected = module[2].weight.sum(1).detach() + module[2].bias.detach()
    np.testing.assert_allclose(white[0], expected, rtol=1e-5)


class Scaled(nn.Module):
    """Mean colours times an attribute that is in no state_dict."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.calls = []

    def forward(self, x):
        self.calls.append(len(x))
        return x.mean((2, 3)) * self.scale


def test_modules_with_another_attribute_do_not_share_features(tmp_path):
    images = random_images(2)
    one, two = (compute_features(images, open_backbone(Scaled(s), side=4)) for s in (1.0, 2.0))
    np.testing.assert_allclose(two, 2 * one)
    assert not cache_path().exists()


def test_a_module_that_changes_after_it_was_opened_has_no_effect():
    module = Scaled(1.0)
    backbone = open_backbone(module, side=4)
    images = random_images(4)
    before = compute_features(images[:3], backbone)
    module.scale = 5.0
    np.testing.assert_array_equal(compute_features(images[:3], backbone), before)
    assert sum(backbone.compute.network.calls) == 3  # remembered in memory
    expected = compute_features(images, open_backbone(Scaled(1.0), side=4))
    np.testing.assert_array_equal(compute_features(images, backbone), expected)


def test_the_callers_module_stays_as_it_was():
    module = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2), nn.Flatten()).double().train()
    before = copy.deepcopy(module.state_dict())
    compute_features(random_images(2), open_backbone(module, side=4))
    assert module.training
    assert all(p.requires_grad and p.dtype == torch.float64 for p in module.parameters())
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())


def test_an_author_can_give_a_fingerprint():
    images = random_images(2)
    mine = Backbone("mine", 4, "mine-v1", lambda pixels: pixels.mean((1, 2)))
    expected = compute_features(images, open_backbone(mine))
    again = Backbone("mine", 4, "mine-v1", lambda pixels: pytest.fail("computed again"))
    np.testing.assert_array_equal(compute_features(images, open_backbone(again)), expected)


def test_every_size_and_model_has_its_own_fingerprint(monkeypatch):
    monkeypatch.setattr(efficientnet_lite, "load_pretrained", lambda size: nn.Flatten())
    opened = [open_backbone(f"efficientnet-lite{k}", side=s) for k in (0, 1) for s in (64, 224)]
    assert len({backbone.fingerprint for backbone in opened}) == 4


def test_lite_backbones_see_pixels_minus_127_over_128(monkeypatch):
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    monkeypatch.setattr(efficientnet_lite, "load_pretrained", lambda size: pooled)
    backbone = open_backbone("efficientnet-lite0", side=4)
    pixels = np.array([0, 127, 255], np.uint8)[:, None, None, None].repeat(4, 1).repeat(4, 2)
    found = backbone(pixels.repeat(3, 3))
    np.testing.assert_allclose(found, np.array([[-127, 0, 128]]).T.repeat(3, 1) / 128, atol=1e-6)


@pytest.mark.parametrize("source", [nn.Flatten(), len, "efficientnet-lite0"])
def test_the_side_has_a_default_and_limits(source, monkeypatch):
    monkeypatch.setattr(efficientnet_lite, "load_pretrained", lambda size: nn.Flatten())
    assert open_backbone(source).side == 224
    assert [open_backbone(source, side=side).side for side in (1, 10_000)] == [1, 10_000]
    for side in (0, 10_001):
        with pytest.raises(ClassifierError, match=str(side)):
            open_backbone(source, side=side)


def test_remembered_features_are_not_pickled():
    remembering = Backbone("mine", 4, "", np.mean, memory={b"key": np.ones(3, np.float32)})
    assert pickle.loads(pickle.dumps(remembering)).memory == {}
    assert pickle.loads(pickle.dumps(Backbone("mine", 4, "", np.mean))).memory is None


def test_features_of_a_wrong_shape_are_refused():
    with pytest.raises(ClassifierError, match=r"\[1, 4, 4, 3\]"):
        compute_features(random_images(1), open_backbone(lambda pixels: pixels, side=4))


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ClassifierError, match="efficientnet-lite0"):
        open_backbone("eficientnet-lite0")
