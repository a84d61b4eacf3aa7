"""The adapted network as plain functions of (parameters, images): a body of whatever kind, then a linear head.

No modules, no running averages, no hidden state. Parameters live in dicts of tensors: ``theta`` is what the inner loop
moves, :class:`Norm` what not. What a body is, :class:`Body` says; those that there are, :mod:`anyshot.models.bodies`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.errors import AnyshotError

EPS = 1e-3  #: of the normalisation's variance
HEAD_PARAMETERS = ("head_weight", "head_bias")
BODY_PREFIXES = (
    "theta.",
    "shift.",
)  #: how the names of the body's parameters begin, in every method
Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Norm:
    """The normalisations of a network and what follows each: ``norm(i, y)`` is scale · x̂ + shift for its unit i.

    ``shift`` is the meta-learned β, one [channels] tensor a unit, not adapted; ``scale`` is 1 (``None``) unless z acts
    here. Statistics are those of the set in hand, or of its first ``lenders`` images alone.
    """

    shift: Sequence[Tensor]
    scale: Sequence[Tensor] | None = None
    reference_size: int | None = None

    def __call__(self, unit: int, y: Tensor) -> Tensor:
        """Normalised, scaled and shifted y, [n, channels, …]."""
        return normalise(
            y,
            None if self.scale is None else self.scale[unit],
            self.shift[unit],
            self.reference_size,
        )


Features = Callable[
    [Parameters, Norm, Tensor], Tensor
]  #: (θ, norm, images [n, channels, h, w]) → [n, width]


@dataclass(frozen=True)
class Layer:
    """A linear map of a body (a convolution) and the normalisation after it: what z scales, output by output."""

    weight: str  #: its parameter's name
    size: tuple[int, ...]  #: of the weight, outputs first
    group: str  #: units of one layer share a step size multiplier γ_l
    bias: str | None = None  #: its parameter's name, if it has one

    @property
    def channels(self) -> int:
        """Outputs."""
        return self.size[0]


@dataclass(frozen=True)
class Body:
    """All that anything knows of a body: how images become features, and what its parameters are.

    >>> from anyshot.models.bodies.conv4 import conv4
    >>> conv4((32, 32)).width, conv4((84, 84)).width, conv4((84, 84), channels=64).width
    (128, 800, 1600)
    """

    features: Features
    layers: tuple[Layer, ...]  #: in the order of ``norm``
    image_size: tuple[int, int]
    image_channels: int = 3

    @property
    def layer_parameters(self) -> dict[str, tuple[str, ...]]:
        """The layers in the order of γ and the parameters of each; the last is the head."""
        layers: dict[str, tuple[str, ...]] = {}
        for unit in self.layers:
            layers[unit.group] = (
                *layers.get(unit.group, ()),
                unit.weight,
                *([unit.bias] if unit.bias else []),
            )
        return {**layers, "head": HEAD_PARAMETERS}

    @cached_property
    def width(self) -> int:
        """Length of a feature vector, found out by asking for one of an image without content."""
        with torch.device("meta"):
            theta = {u.weight: torch.empty(u.size) for u in self.layers}
            theta |= {u.bias: torch.empty(u.channels) for u in self.layers if u.bias}
            try:
                return self.features(
                    theta, self.norm(), torch.empty(2, self.image_channels, *self.image_size)
                ).shape[1]
            except RuntimeError as error:
                height, width = self.image_size
                raise AnyshotError(
                    f"The body cannot take images of {height}×{width} pixels ({error})."
                ) from error

    def norm(self) -> Norm:
        """The normalisations at their start: no shift."""
        return Norm([torch.zeros(unit.channels) for unit in self.layers])

    def init_parameters(self, generator: torch.Generator, start: str = "paper") -> Parameters:
        """θ without the head: weights truncated normal (±2σ), σ = 0.02 (``paper``) or √(2 / fan-in) (``he``);
        biases 0."""
        theta = {}
        for unit in self.layers:
            sigma = 0.02 if start == "paper" else (2 / math.prod(unit.size[1:])) ** 0.5
            theta[unit.weight] = truncated_normal(unit.size, sigma, generator)
            if unit.bias:
                theta[unit.bias] = torch.zeros(unit.channels)
        return theta


def truncated_normal(size: Sequence[int], sigma: float, generator: torch.Generator) -> Tensor:
    """N(0, σ²) cut at ±2σ."""
    return torch.nn.init.trunc_normal_(
        torch.empty(*size), 0.0, sigma, -2 * sigma, 2 * sigma, generator=generator
    )


def zero_head(way: int, features: int, like: Tensor) -> Parameters:
    """The head's start, zeros and not learned: indifferent to class order, and any number of classes will do."""
    return {"head_weight": like.new_zeros(way, features), "head_bias": like.new_zeros(way)}


def to_float(images: Tensor) -> Tensor:
    """uint8 [n, height, width, channels] → float [n, channels, height, width] in [0, 1], channels-last in memory."""
    return images.permute(0, 3, 1, 2).float().div_(255)


def normalise(
    y: Tensor, scale: Tensor | None = None, shift: Tensor | None = None, lenders: int | None = None
) -> Tensor:
    """scale · x̂ + shift, with x̂ = (y − mean) / √(var + ε) per channel of y [n, channels, …]; biased variance.

    Mean and variance are those of the first ``lenders`` of the set, or of all of it.
    """
    if lenders is None:
        return F.batch_norm(y, None, None, scale, shift, training=True, eps=EPS)
    others = [d for d in range(y.dim()) if d != 1]
    variance, mean = torch.var_mean(y[:lenders], others, correction=0, keepdim=True)
    xhat = (y - mean) * (variance + EPS).rsqrt()  # batch_norm has no gradient for given statistics
    xhat = xhat if scale is None else xhat * scale.view_as(mean)
    return xhat if shift is None else xhat + shift.view_as(mean)


def embed(
    features: Features, theta: Parameters, norm: Norm, x: Tensor, centre: bool = False, reference: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Features [n, width] of images [n, channels, height, width].

    ``centre`` subtracts the set's mean feature: ReLU features have a large common mean that stalls steps on the head.
    All statistics are those of the ``reference`` images, or of the set in hand.
    """
    lenders = 0 if reference is None else len(reference)
    if reference is not None:
        norm, x = dataclasses.replace(norm, reference_size=lenders), torch.cat([reference, x])
    h = features(theta, norm, x)
    return h[lenders:] - h[: lenders or None].mean(0) if centre else h[lenders:]


def logits(
    features: Features, theta: Parameters, norm: Norm, x: Tensor, centre: bool = False, reference: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Class scores [n, way]."""
    return F.linear(
        embed(features, theta, norm, x, centre, reference), theta["head_weight"], theta["head_bias"]
    )
