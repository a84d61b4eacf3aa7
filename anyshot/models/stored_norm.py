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
    """Batch norms whose means and variances are given, one pair for each layer.

    A body that centres its features needs their mean [width], too.
    """

    statistics: Sequence[Statistics] = ()
    feature_mean: Tensor | None = None

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        """Return the normalised, scaled and shifted y, [n, channels, …], of a layer."""
        mean, variance = self.statistics[layer]
        scale = None if self.scale is None else self.scale[layer]
        return F.batch_norm(y, mean, variance, scale, self.shift[layer], training=False, eps=EPS)

    def centre(self, features: Tensor) -> Tensor:
        """Return features [n, width] minus the stored mean."""
        if self.feature_mean is None:
            raise SettingsError("A body that centres its features needs StoredNorm's feature_mean.")
        return features - self.feature_mean


@dataclass(frozen=True)
class _RecordingNorm(Norm):
    """Batch norms that keep the statistics of the batch, by layer, and its mean feature."""

    seen: dict[int, Statistics] = field(default_factory=dict)
    feature_means: list[Tensor] = field(default_factory=list)

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        others = [d for d in range(y.dim()) if d != 1]
        variance, mean = torch.var_mean(y, others, correction=0)
        self.seen[layer] = (mean, variance)
        return super().__call__(layer, y)

    def centre(self, features: Tensor) -> Tensor:
        self.feature_means.append(features.mean(0))
        return super().centre(features)


@torch.no_grad()
def measure_statistics(
    body: Body, theta: Parameters, norm: Norm, images: Tensor
) -> tuple[list[Statistics], Tensor | None]:
    """Statistics of images [n, channels, height, width].

    Returns
    -------
    list of (Tensor, Tensor)
        Mean and variance of every normalised layer.
    Tensor or None
        The mean feature [width], if the body centres its features.
    """
    recording = _RecordingNorm(norm.shift, norm.scale, constants=norm.constants)
    body.features(theta, recording, images)
    layers = range(len(body.layers))
    if not recording.seen.keys() >= set(layers):
        raise SettingsError(
            "stored_statistics needs a body with a batch norm after every layer, such as conv4; "
            "this one has other normalisations. Drop --stored-statistics."
        )
    mean = recording.feature_means[0] if body.centred else None
    return [recording.seen[layer] for layer in layers], mean
