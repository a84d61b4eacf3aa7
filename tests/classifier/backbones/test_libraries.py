"""Models of other libraries, with stand-ins for the libraries: only their interface is used."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from anyshot.classifier.backbones import open_backbone
from anyshot.core.errors import AnyshotError


class Tiny(nn.Module):
    """A pooled convolution with a head, as torchvision builds them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 1)
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


def test_timm_models_get_their_own_size_mean_and_deviation(monkeypatch):
    network, given = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), {}
    timm = types.ModuleType("timm")
    timm.create_model = lambda name, **how: given.update(name=name, **how) or network
    timm.data = types.SimpleNamespace(
        resolve_model_data_config=lambda model: {
            "input_size": (3, 6, 6),
            "mean": (0.5,) * 3,
            "std": (0.25,) * 3,
        }
    )
    config = types.SimpleNamespace(fixed_input_size=False)
    timm.get_pretrained_cfg = lambda name: config
    monkeypatch.setitem(sys.modules, "timm", timm)
    backbone = open_backbone("timm:resnet18.a1_in1k")
    other_size = open_backbone("timm:resnet18.a1_in1k", side=8)
    assert other_size.fingerprint != backbone.fingerprint
    assert given == {"name": "resnet18.a1_in1k", "pretrained": True, "num_classes": 0}
    assert backbone.side == 6
    np.testing.assert_allclose(backbone(np.full((1, 6, 6, 3), 255, np.uint8)), [[2.0] * 3])
    config.fixed_input_size = True  # a vision transformer needs the size when it is made
    open_backbone("timm:vit_small_patch14_dinov2.lvd142m", side=8)
    assert given["img_size"] == 8


def test_torchvision_models_lose_their_head(monkeypatch):
    torch.manual_seed(0)
    network = Tiny()
    torchvision = types.ModuleType("torchvision")
    torchvision.models = types.SimpleNamespace(get_model=lambda name, weights: network)
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    assert open_backbone("torchvision:resnet18", side=5)(
        np.zeros((2, 5, 5, 3), np.uint8)
    ).shape == (2, 4)
    with pytest.raises(AnyshotError, match="head"):
        network.body, network.fc = nn.Identity(), None
        del network.fc
        open_backbone("torchvision:resnet18")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(AnyshotError, match="pip install timm"):
        open_backbone("timm:resnet18")


def test_an_unknown_device_is_named():
    with pytest.raises(AnyshotError, match="nowhere"):
        open_backbone(Tiny(), device="nowhere")


def test_the_programs_default_type_changes_no_feature():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 5, 3), np.uint8)
    actual = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            network = Tiny()
            with torch.no_grad():
                for i, parameter in enumerate(network.parameters()):
                    parameter.fill_(0.3 + i)
            actual.append(open_backbone(network, side=5)(pixels))
        finally:
            torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(*actual)
