"""Small networks as a user would write them, for images of 16×16 pixels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class ConvNorm(nn.Module):
    """Convolutions (one with groups), batch norm, a scalar parameter, a buffer and dropout."""

    def __init__(self, channels: int = 4, dropout: float = 0.3) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=2)
        self.second_norm = nn.BatchNorm2d(channels)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("offset", torch.rand(()))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.first(x))), 4)
        h = F.max_pool2d(F.relu(self.second_norm(self.second(h))), 2)
        return self.scale * (self.dropout(h.flatten(1)) + self.offset)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        return x + F.silu(self.norm(self.conv(x)))


class ResidualNet(nn.Module):
    """A residual network with group norm."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, 4)
        self.blocks = nn.Sequential(ResidualBlock(channels), ResidualBlock(channels))

    def forward(self, x):
        return self.blocks(self.stem(x)).mean((2, 3))


class TinyTransformer(nn.Module):
    """A vision transformer: both kinds of attention, layer norm and dropout."""

    def __init__(self, image_size=(16, 16), channels: int = 8, dropout: float = 0.2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 8, 8)
        self.position = nn.Parameter(
            torch.randn(1, image_size[0] // 8 * image_size[1] // 8, channels)
        )
        self.norm = nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, 2, dropout=dropout, batch_first=True)
        self.head = nn.Linear(channels, 3 * channels)
        self.dropout = dropout

    def forward(self, x):
        h = self.patches(x).flatten(2).transpose(1, 2) + self.position
        n = self.norm(h)
        h = h + self.attention(n, n, n, need_weights=False)[0]
        q, k, v = self.head(h).chunk(3, -1)
        p = self.dropout if self.training else 0.0
        h = h + F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return F.dropout(h.mean(1), p, self.training)


NETS = {net.__name__: net for net in (ConvNorm, ResidualNet, TinyTransformer)}
