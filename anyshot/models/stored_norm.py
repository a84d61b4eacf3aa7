"""Batch norms with stored statistics: an image's features do not depend on its batch."""

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
class _RecordingNorm(Norm):
    """Batch norms that keep the statistics of the batch, by layer."""

    seen: dict[int, Statistics] = field(default_factory=dict)

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        others = [d for d in range(y.dim()) if d != 1]
        variance, mean = torch.var_mean(y, others, correction=0)
        self.seen[layer] = (mean, variance)
        return super().__call__(layer, y)


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
            "stored_statistics needs a body with a batch norm after every layer, such as conv4; "
            "this one has other normalisations. Drop --stored-statistics."
        )
    return [recording.seen[layer] for layer in layers]
