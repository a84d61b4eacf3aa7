"""The network that a task adapts, as functions of (parameters, images): a body and a linear head.

There are no running averages and no hidden state. The parameters that the inner loop changes are
a dict of tensors, ``theta``; what it does not change is in :class:`Norm`. :class:`Body` describes a
backbone; :mod:`anyshot.models.bodies` has the built-in ones, and any module can be one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.errors import CodeError, SettingsError
from anyshot.models.norm import Norm as Norm
from anyshot.models.norm import Parameters as Parameters

HEAD_PARAMETERS = ("head_weight", "head_bias")  #: names of the head's parameters in θ
#: prefixes of the body's parameters in the state of every method
BODY_PREFIXES = ("theta.", "shift.", "constants.")

#: (θ, norm, images [n, channels, height, width]) → features [n, width]
Features = Callable[[Parameters, Norm, Tensor], Tensor]
#: (θ, features [n, width]) → class scores [n, way]
Head = Callable[[Parameters, Tensor], Tensor]


@dataclass(frozen=True)
class Layer:
    """A linear layer of a body (usually a convolution) that is followed by a normalisation.

    Parameters
    ----------
    weight : str
        Name of the weight in θ.
    size : tuple of int
        Shape of the weight, outputs first: (outputs, inputs, 3, 3).
    group : str
        Layers of one group share one learning-rate multiplier γ.
    bias : str, optional
        Name of the bias in θ. Default: no bias.
    groups : int
        Groups of a convolution.

    Examples
    --------
    >>> Layer("conv1_weight", (32, 3, 3, 3), "conv 1", "conv1_bias").channels
    32
    """

    weight: str
    size: tuple[int, ...]
    group: str
    bias: str | None = None
    groups: int = 1

    @property
    def channels(self) -> int:
        """Number of outputs."""
        return self.size[0]


@dataclass(frozen=True)
class Body:
    """A backbone: a function from images to features, and a description of its parameters.

    Parameters
    ----------
    features : callable
        (θ, norm, images [n, channels, height, width]) -> features [n, width].
        It calls ``norm(i, y)`` after layer i.
    layers : tuple of Layer
        In the order of the indices that ``features`` passes to ``norm``.
    image_size : (int, int)
        Height and width of the images.
    image_channels : int
        Channels of the images.
    parts : tuple of (str, int)
        Names and widths of the parts of a feature vector, for example one for each depth. Each part
        of the head has its own learning-rate multiplier γ. Default: one part, "head".
    others : dict of str to Tensor
        Initial values of parameters that belong to no layer, such as position embeddings. Each has
        its own γ, and z does not change it.

    Attributes
    ----------
    width : int
        Length of a feature vector.
    layer_parameters : dict of str to tuple of str
        Names of the parameters of each group, the head last.

    See Also
    --------
    create_body : create a body by name.

    Examples
    --------
    >>> import torch.nn.functional as F
    >>> def features(theta, norm, x):
    ...     return F.relu(norm(0, F.linear(x.flatten(1), theta["weight"])))
    >>> body = Body(features, (Layer("weight", (16, 3 * 8 * 8), "first"),), image_size=(8, 8))
    >>> body.width, body.layer_parameters
    (16, {'first': ('weight',), 'head': ('head_weight', 'head_bias')})
    """

    features: Features
    layers: tuple[Layer, ...]
    image_size: tuple[int, int]
    image_channels: int = 3
    parts: tuple[tuple[str, int], ...] = ()
    others: Mapping[str, Tensor] = field(default_factory=dict, compare=False)

    @property
    def head_parts(self) -> dict[str, int]:
        """Width of each part of the features, by name."""
        return dict(self.parts) or {"head": self.width}

    @staticmethod
    def from_module(
        module: nn.Module, image_size: tuple[int, int] = (32, 32), image_channels: int = 3
    ) -> Body:
        """Create a body of any module that maps images to features [n, width].

        All parameters that require a gradient are adapted and learned, from their current values.
        Batch norms use the statistics that the method's setting ``transductive`` says, never
        running averages. Dropout is drawn from the task's generator in training and is off in
        tests. The module itself does not change.

        Parameters
        ----------
        module : torch.nn.Module
            Images [n, channels, height, width] → features [n, width].
        image_size : (int, int)
            Height and width of the images.
        image_channels : int
            Channels of the images.

        Returns
        -------
        Body

        Raises
        ------
        CodeError
            If the module cannot be a function of its parameters; the message names the layer.

        Examples
        --------
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        >>> body = Body.from_module(net, (8, 8))
        >>> body.width, list(body.layer_parameters)
        (288, ['0', '1', 'head'])
        """
        from anyshot.models.module_body import module_body  # which imports this module

        return module_body(module, image_size, image_channels)

    def draw_seed(self, noise: torch.Generator | None) -> int | None:
        """The seed of dropout for a training task: None, a function has none."""
        return None

    @property
    def layer_parameters(self) -> dict[str, tuple[str, ...]]:
        """Names of the parameters of each group in the order of γ; the last group is the head."""
        groups: dict[str, tuple[str, ...]] = {}
        for layer in self.layers:
            names = (layer.weight, layer.bias) if layer.bias else (layer.weight,)
            groups[layer.group] = (*groups.get(layer.group, ()), *names)
        groups |= {name: (name,) for name in self.others}
        return {**groups, "head": HEAD_PARAMETERS}

    @cached_property
    def width(self) -> int:
        """Length of a feature vector, found with images on torch's device without data."""
        height, width = self.image_size
        with torch.device("meta"):
            theta = {layer.weight: torch.empty(layer.size) for layer in self.layers}
            theta |= {
                layer.bias: torch.empty(layer.channels) for layer in self.layers if layer.bias
            }
            theta |= {name: torch.empty(value.shape) for name, value in self.others.items()}
            images = torch.empty(2, self.image_channels, height, width)
            try:
                output = self.features(theta, self.norm(), images)
            except RuntimeError as error:
                raise SettingsError(
                    f"The body cannot process images of {height}×{width} pixels ({error}); "
                    "use larger images or another body."
                ) from error
        if getattr(output, "ndim", 0) != 2 or len(output) != 2:
            shape = list(getattr(output, "shape", ()))
            raise CodeError(
                f"The body returns features of shape {shape} for 2 images; expected [2, width]."
            )
        return output.shape[1]

    def norm(self) -> Norm:
        """Return the batch norms at their initialisation: shift 0."""
        return Norm([torch.zeros(layer.channels) for layer in self.layers])

    def init_parameters(self, generator: torch.Generator, start: str = "paper") -> Parameters:
        """Return initial parameters θ without the head.

        Parameters
        ----------
        generator : torch.Generator
            Source of the random numbers.
        start : {"paper", "he"}
            Weights are truncated normal (±2σ) with σ = 0.02 or σ = √(2 / fan-in). Biases are 0.

        Returns
        -------
        dict of str to Tensor
        """
        theta = {}
        for layer in self.layers:
            sigma = 0.02 if start == "paper" else (2 / math.prod(layer.size[1:])) ** 0.5
            theta[layer.weight] = truncated_normal(layer.size, sigma, generator)
            if layer.bias:
                theta[layer.bias] = torch.zeros(layer.channels)
        return theta | {name: value.clone() for name, value in self.others.items()}


def truncated_normal(size: Sequence[int], sigma: float, generator: torch.Generator) -> Tensor:
    """Draw a tensor from N(0, σ²), truncated at ±2σ."""
    empty = torch.empty(*size)
    return torch.nn.init.trunc_normal_(
        empty, 0.0, sigma, -2 * sigma, 2 * sigma, generator=generator
    )


def zero_head(way: int, features: int, like: Tensor) -> Parameters:
    """Return a linear head of zeros: it prefers no class and fits any number of classes.

    Parameters
    ----------
    way : int
        Number of classes.
    features : int
        Length of a feature vector.
    like : Tensor
        A tensor with the type and device of the result.

    Returns
    -------
    dict of str to Tensor
        ``head_weight`` [way, features] and ``head_bias`` [way].

    Examples
    --------
    >>> {name: tuple(value.shape) for name, value in zero_head(5, 128, torch.ones(1)).items()}
    {'head_weight': (5, 128), 'head_bias': (5,)}
    """
    return {"head_weight": like.new_zeros(way, features), "head_bias": like.new_zeros(way)}


def linear_head(theta: Parameters, features: Tensor) -> Tensor:
    """Class scores W f + b [n, way] of features [n, width]."""
    return F.linear(features, theta["head_weight"], theta["head_bias"])


def to_float(images: Tensor) -> Tensor:
    """Convert uint8 [n, height, width, channels] to float [n, channels, height, width] in [0, 1].

    The result is channels-last in memory.
    """
    return images.permute(0, 3, 1, 2).float().div_(255)


def embed(
    features: Features,
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool = False,
    reference: Tensor | None = None,
) -> Tensor:
    """Compute features [n, width] of images [n, channels, height, width].

    Parameters
    ----------
    features : callable
        ``features`` of a body.
    theta : dict of str to Tensor
        Parameters of the body.
    norm : Norm
        Batch norms of the body.
    images : Tensor
        [n, channels, height, width].
    centre : bool
        Subtract the mean feature: ReLU features have a large common mean, which slows down steps on
        the head.
    reference : Tensor, optional
        Images whose statistics are used instead of those of ``images``.
    """
    count = 0 if reference is None else len(reference)
    if reference is not None:
        norm = copy.copy(norm)  # keeps the class and attributes of a subclass
        object.__setattr__(norm, "reference_size", count)
        images = torch.cat([reference, images])
    h = features(theta, norm, images)
    return h[count:] - h[: count or None].mean(0) if centre else h[count:]


def logits(
    features: Features,
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool = False,
    reference: Tensor | None = None,
    head: Head = linear_head,
) -> Tensor:
    """Compute class scores [n, way] of images; see :func:`embed` for the parameters."""
    return head(theta, embed(features, theta, norm, images, centre, reference))
