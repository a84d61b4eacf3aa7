"""Two networks as users write them: a ResNet-12 and a small vision transformer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.1  #: of the leaky ReLU


class ResidualBlock(nn.Module):
    """Three convolutions with batch norm, a 1×1 shortcut and max pooling."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()

        def convolve(inputs: int, kernel: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(outputs, track_running_stats=False),
            )

        self.first, self.second = convolve(inputs, 3), convolve(outputs, 3)
        self.third, self.shortcut = convolve(outputs, 3), convolve(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[n, inputs, h, w] → [n, outputs, h/2, w/2]."""
        h = F.leaky_relu(self.first(x), SLOPE)
        h = self.third(F.leaky_relu(self.second(h), SLOPE))
        return F.max_pool2d(F.leaky_relu(h + self.shortcut(x), SLOPE), 2)


class ResNet12(nn.Module):
    """Four residual blocks of 1, 2, 4 and 8 times ``channels`` channels."""

    def __init__(self, way: int, size: int, channels: int) -> None:
        super().__init__()
        widths = [3, *(channels << block for block in range(4))]
        self.blocks = nn.Sequential(*(ResidualBlock(*pair) for pair in pairwise(widths)))
        self.head = nn.Linear(widths[-1], way)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [n, way]."""
        return self.head(self.blocks(x).mean((2, 3)))


class TransformerBlock(nn.Module):
    """Self-attention and two linear layers, each after a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[n, tokens, width] → the same shape."""
        n, tokens, width = x.shape
        joint = self.query_key_value(self.before_attention(x))
        q, k, v = joint.view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.output(attended.reshape(n, tokens, width))
        return x + self.layers(self.before_layers(x))


class VisionTransformer(nn.Module):
    """Patches of 4×4 pixels and four blocks of four heads; ``channels`` is the width / 4."""

    def __init__(self, way: int, size: int, channels: int) -> None:
        super().__init__()
        width = 4 * channels
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.positions = nn.Parameter(0.02 * torch.randn((size // 4) ** 2, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, 4) for _ in range(4)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, way)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [n, way]."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(tokens)).mean(1))


NETWORKS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "ResNet-12": ResNet12,
    "vision transformer": VisionTransformer,
}
