"""Tasks on features for meta-training and measuring: wide ones to learn from, the paper's to compare on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.heads.learner import Head, fit_fixed
from anyshot.classifier.heads.support_set import (
    ProjectedFeatures,
    SupportSet,
    WithinClassDamping,
    make_support_set,
)
from anyshot.core.random import numpy_rng

Features = NDArray[np.float32]
QUERY = 15
OTHERS = 6  # classes that a task does not have, and images of each, to be told from its own
MOST = 600  # support images of a meta-training task
CEILINGS = (1, 3, 10, 30, 50, 150, 300)  # meta-training draws class sizes up to one of these


@dataclass(frozen=True)
class FeatureSet:
    """Features of a data set, class by class."""

    name: str
    classes: Sequence[Features]  # [n, d] each


@dataclass(frozen=True)
class Episode:
    """A task on features: support [N, d] with labels, query [M, d] with labels."""

    support: Tensor
    labels: Tensor
    query: Tensor
    query_labels: Tensor
    others: Tensor  # [k, d], images of other classes of the set, if it has any


@dataclass(frozen=True)
class PreparedEpisode:
    """An episode in its own coordinates, with the heads that meta-training does not touch already fitted."""

    support: SupportSet
    query: ProjectedFeatures
    query_labels: Tensor
    fixed: list[tuple[Head, Tensor]]


def sample_task(
    data: FeatureSet, shots: Sequence[int] | NDArray[np.int64], rng: np.random.Generator
) -> Episode:
    """A task of len(shots) classes; a class with too few images keeps QUERY of them, or half, for the query."""
    support, query = [], []
    classes = rng.permutation(len(data.classes))
    for c, wanted in zip(classes, shots, strict=False):
        images = data.classes[c]
        kept = min(QUERY, len(images) // 2)
        n = min(int(wanted), len(images) - kept)
        order = rng.permutation(len(images))
        support.append(images[order[:n]])
        query.append(images[order[n : n + kept]])
    others = [
        data.classes[c][rng.permutation(len(data.classes[c]))[:OTHERS]]
        for c in classes[len(shots) :][:OTHERS]
    ]
    return Episode(
        *_gathered(support), *_gathered(query),
        torch.from_numpy(np.concatenate([np.zeros((0, data.classes[0].shape[1]), np.float32), *others])),
    )  # fmt: skip


def sample_wide_task(data: FeatureSet, seed: int, index: int) -> Episode:
    """A task for meta-training: 2 to 50 classes of 1 to 300 images, equal or not, in all shapes."""
    rng = numpy_rng(seed, data.name, index)
    way = min(int(2 * 25 ** rng.random()), len(data.classes))
    ceiling = min(CEILINGS[rng.integers(len(CEILINGS))], max(1, MOST // way))
    rule = rng.integers(3)
    if rule == 0:
        shots = np.full(way, rng.integers(1, ceiling, endpoint=True))
    elif rule == 1:
        shots = rng.integers(1, ceiling, size=way, endpoint=True)
    else:  # most classes small, a few large
        shots = np.exp(rng.random(way) * np.log(ceiling)).round().astype(np.int64)
    return sample_task(data, shots, rng)


def prepare(episode: Episode, damping: WithinClassDamping | None = None) -> PreparedEpisode:
    """Coordinates and fixed heads, which do not change while meta-training goes on."""
    with torch.no_grad():
        frame, support = make_support_set(episode.support, episode.labels, damping)
        return PreparedEpisode(
            support, frame(episode.query), episode.query_labels, fit_fixed(support)
        )


def _gathered(rows: list[Features]) -> tuple[Tensor, Tensor]:
    labels = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(r) for r in rows]))
    return torch.from_numpy(np.concatenate(rows)), labels
