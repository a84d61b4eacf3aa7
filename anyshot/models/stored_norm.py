"""Batch norms with stored statistics, alone or as a prior for those of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.errors import SettingsError
from anyshot.models.network import Body
from anyshot.models.norm import EPS, Norm, Parameters

Statistics = tuple[Tensor, Tensor]  #: mean and biased variance, [channels] each


@dataclass(frozen=True)
class StoredNorm(Norm):
    """Batch norms whose means and variances are given, one pair for each layer."""

    statistics: Sequence[Statistics] = ()

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        """Return the normalised, scaled and shifted y, [n, channels, …], of a layer."""
        mean, variance = self.statistics[layer]
        scale = None if self.scale is None else self.scale[layer]
        return F.batch_norm(y, mean, variance, scale, self.shift[layer], training=False, eps=EPS)


@dataclass(frozen=True)
class ShrunkNorm(Norm):
    """Batch norms whose statistics are those of the batch and of n_0 more images with given ones.

    Mean m and variance v of the n images of the batch, m_0 and v_0 given, a = n / (n + n_0):

        mean = a m + (1 − a) m_0,    var = a v + (1 − a) v_0 + a (1 − a) (m − m_0)²
    """

    statistics: Sequence[Statistics] = ()
    prior_images: float = 0.0  #: n_0

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        """Return the normalised, scaled and shifted y, [n, channels, …], of a layer."""
        count = self.reference_size or len(y)
        variance, mean = _moments(y[:count])
        prior_mean, prior_variance = self.statistics[layer]
        a = count / (count + self.prior_images)
        variance = a * variance + (1 - a) * prior_variance + a * (1 - a) * (mean - prior_mean) ** 2
        mean = a * mean + (1 - a) * prior_mean
        # torch's batch norm does not differentiate through statistics that it is given
        scale = (variance + EPS).rsqrt()
        if self.scale is not None:
            scale = scale * self.scale[layer]
        shape = (-1, *[1] * (y.dim() - 2))
        return (y - mean.view(shape)) * scale.view(shape) + self.shift[layer].view(shape)


@dataclass(frozen=True)
class _RecordingNorm(Norm):
    """Batch norms that keep the statistics of the batch, by layer."""

    seen: dict[int, Statistics] = field(default_factory=dict)

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        variance, mean = _moments(y)
        self.seen[layer] = (mean, variance)
        return super().__call__(layer, y)


def _moments(y: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each channel of y [n, channels, …]."""
    return torch.var_mean(y, [d for d in range(y.dim()) if d != 1], correction=0)


@torch.no_grad()
def measure_statistics(
    body: Body, theta: Parameters, norm: Norm, images: Tensor
) -> list[Statistics]:
    """Mean and variance of every normalised layer, over images [n, channels, height, width]."""
    recording = _RecordingNorm(norm.shift, norm.scale, constants=norm.constants)
    body.features(theta, recording, images)
    layers = range(len(body.layers))
    if not recording.seen.keys() >= set(layers):
        raise SettingsError(
            "Stored statistics need a body with a batch norm after every layer, such as conv4. "
            "This one has other normalisations: drop --stored-statistics and --norm-prior."
        )
    return [recording.seen[layer] for layer in layers]
