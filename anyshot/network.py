"""The adapted network as plain functions of (parameters, images): no modules, no running averages, no hidden state.

Conv4: four blocks of *3×3 convolution → batch-statistics normalisation → scale, shift → ReLU → 2×2 max-pool*, then a
linear head. Parameters live in dicts of tensors: ``theta`` is what the inner loop moves, :class:`Norm` what not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

LAYERS = 4  #: convolution blocks
EPS = 1e-3  #: of the normalisation's variance
CONV_WEIGHTS = tuple(f"conv{layer}_weight" for layer in range(1, LAYERS + 1))
CONV_BIASES = tuple(f"conv{layer}_bias" for layer in range(1, LAYERS + 1))
HEAD = ("head_weight", "head_bias")
Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Norm:
    """What follows each normalisation and is not adapted: ``relu(scale · x̂ + shift)``.

    ``shift`` is the meta-learned β, one [channels] tensor a block; ``scale`` is 1 (``None``) unless z acts here.
    """

    shift: Sequence[Tensor]
    scale: Sequence[Tensor] | None = None


@dataclass(frozen=True)
class Shape:
    """Size of a Conv4: enough to make its parameters.

    >>> Shape((32, 32)).features, Shape((84, 84)).features
    (128, 800)
    """

    image_size: tuple[int, int]
    channels: int = 32
    image_channels: int = 3

    @property
    def features(self) -> int:
        """Length of the flattened body output; each block halves the side, rounding down."""
        height, width = self.image_size
        return self.channels * (height >> LAYERS) * (width >> LAYERS)


def start_body(shape: Shape, generator: torch.Generator, start: str = "paper") -> Parameters:
    """θ without the head: weights truncated normal (±2σ), σ = 0.02 (``paper``) or √(2 / fan-in) (``he``); biases 0."""
    theta, fan = {}, shape.image_channels
    for weight, bias in zip(CONV_WEIGHTS, CONV_BIASES, strict=True):
        sigma = 0.02 if start == "paper" else (2 / (9 * fan)) ** 0.5
        theta[weight] = truncated_normal((shape.channels, fan, 3, 3), sigma, generator)
        theta[bias] = torch.zeros(shape.channels)
        fan = shape.channels
    return theta


def truncated_normal(size: Sequence[int], sigma: float, generator: torch.Generator) -> Tensor:
    """N(0, σ²) cut at ±2σ."""
    return torch.nn.init.trunc_normal_(torch.empty(*size), 0.0, sigma, -2 * sigma, 2 * sigma, generator=generator)


def zero_head(way: int, features: int, like: Tensor) -> Parameters:
    """The head's start, zeros and not learned: indifferent to class order, and any number of classes will do."""
    return {"head_weight": like.new_zeros(way, features), "head_bias": like.new_zeros(way)}


def to_float(images: Tensor) -> Tensor:
    """uint8 [n, height, width, channels] → float [n, channels, height, width] in [0, 1], channels-last in memory."""
    return images.permute(0, 3, 1, 2).float().div_(255)


def normalise(
    y: Tensor, scale: Tensor | None = None, shift: Tensor | None = None, reference: Tensor | None = None
) -> Tensor:
    """scale · x̂ + shift, with x̂ = (y − mean) / √(var + ε) per channel, [n, channels, h, w]; biased variance.

    Mean and variance are those of ``reference``, or of the set in hand.
    """
    if reference is None:
        return F.batch_norm(y, None, None, scale, shift, training=True, eps=EPS)
    variance, mean = torch.var_mean(reference, (0, 2, 3), correction=0, keepdim=True)
    xhat = (y - mean) * (variance + EPS).rsqrt()  # batch_norm has no gradient for given statistics
    xhat = xhat if scale is None else xhat * scale.view(-1, 1, 1)
    return xhat if shift is None else xhat + shift.view(-1, 1, 1)


def body(
    theta: Parameters, norm: Norm, x: Tensor, centre: bool = False, reference: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Features [n, features] of images [n, channels, height, width].

    The convolution's bias cancels under batch statistics, so it is left out: that is its exact zero gradient.
    ``centre`` subtracts the set's mean feature: ReLU features have a large common mean that stalls steps on the head.
    All statistics are those of the ``reference`` images, or of the set in hand.
    """
    for layer, weight in enumerate(CONV_WEIGHTS):
        scale, shift = None if norm.scale is None else norm.scale[layer], norm.shift[layer]
        y = F.conv2d(x, theta[weight], padding=1)
        other = None if reference is None else F.conv2d(reference, theta[weight], padding=1)
        x = F.max_pool2d(F.relu(normalise(y, scale, shift, other)), 2)
        reference = None if other is None else F.max_pool2d(F.relu(normalise(other, scale, shift)), 2)
    h = x.flatten(1)
    return h - (x if reference is None else reference).flatten(1).mean(0) if centre else h


def logits(
    theta: Parameters, norm: Norm, x: Tensor, centre: bool = False, reference: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Class scores [n, way]."""
    return F.linear(body(theta, norm, x, centre, reference), theta["head_weight"], theta["head_bias"])
