"""Tasks on features: wide ones for meta-training, and the paper's for measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.heads.learner import Head, fit_fixed, make_views
from anyshot.classifier.heads.support_set import (
    ProjectedFeatures,
    SupportSet,
    WithinClassDamping,
)
from anyshot.core.random import numpy_rng
from anyshot.data.shots import any_shot

Features = NDArray[np.float32]
QUERY = 15
UNKNOWN_CLASSES = 6  # classes outside the task, and images of each, for novelty detection
MAX_SUPPORT = 300  # support images of a meta-training task
USUAL_SIZES = (1, 50)  # images of a class
CEILINGS = (1, 3, 10, 30, 50, 150, 300)  # class sizes go up to one of these
LOPSIDED_CEILINGS = (3, 10, 30, 50)  # the same if other classes have a single image


@dataclass(frozen=True)
class FeatureSet:
    """Features of a data set, class by class."""

    name: str
    classes: Sequence[Features]  # [n, d] each
    widths: tuple[int, ...] = ()  # of the blocks of features; none: one block


@dataclass(frozen=True)
class Episode:
    """A task on features: support [N, d] with labels [N], query [M, d] with labels [M]."""

    support: Tensor
    labels: Tensor
    query: Tensor
    query_labels: Tensor
    unknown: Tensor  # [k, d], images of other classes of the data set; k may be 0
    widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class PreparedEpisode:
    """An episode in its task coordinates, with the heads fitted that meta-training leaves alone."""

    supports: list[SupportSet]  # of each view
    queries: list[ProjectedFeatures]
    query_labels: Tensor
    fixed: list[tuple[Head, Tensor]]


def sample_task(
    data: FeatureSet, shots: Sequence[int] | NDArray[np.int64], rng: np.random.Generator
) -> Episode:
    """Sample a task of len(shots) classes with shots[c] support images each.

    A class with too few images keeps QUERY of them, or half, for the query.
    """
    support, query = [], []
    classes = rng.permutation(len(data.classes))
    for c, shot in zip(classes, shots, strict=False):
        images = data.classes[c]
        queries = min(QUERY, len(images) // 2)
        n = min(int(shot), len(images) - queries)
        order = rng.permutation(len(images))
        support.append(images[order[:n]])
        query.append(images[order[n : n + queries]])
    unknown = [np.zeros((0, data.classes[0].shape[1]), np.float32)]
    for c in classes[len(shots) :][:UNKNOWN_CLASSES]:
        images = data.classes[c]
        unknown.append(images[rng.permutation(len(images))[:UNKNOWN_CLASSES]])
    return Episode(
        *_concatenate(support),
        *_concatenate(query),
        torch.from_numpy(np.concatenate(unknown)),
        data.widths,
    )


def sample_wide_task(data: FeatureSet, seed: int, index: int) -> Episode:
    """A task for meta-training: 2 to 50 classes of 1 to 300 images, balanced or not."""
    rng = numpy_rng(seed, data.name, index)
    way = min(int(2 * 25 ** rng.random()), len(data.classes))
    ceiling = min(CEILINGS[rng.integers(len(CEILINGS))], max(1, MAX_SUPPORT // way))
    rule = rng.integers(3)
    if rule == 0:
        shots = np.full(way, rng.integers(1, ceiling, endpoint=True))
    elif rule == 1:
        shots = rng.integers(1, ceiling, size=way, endpoint=True)
    else:  # most classes small, a few large
        shots = np.exp(rng.random(way) * np.log(ceiling)).round().astype(np.int64)
    return sample_task(data, shots, rng)


def sample_lopsided_task(data: FeatureSet, seed: int, index: int) -> Episode:
    """A task of 2 to 6 classes, half of the time 2; some of them have a single image."""
    rng = numpy_rng(seed, data.name, "lopsided", index)
    way = 2 if rng.integers(2) else int(rng.integers(2, 7))
    singles = int(rng.integers(1, way))
    ceiling = LOPSIDED_CEILINGS[rng.integers(len(LOPSIDED_CEILINGS))]
    others = 2 * (ceiling / 2) ** rng.random(way - singles)
    return sample_task(data, rng.permutation([*[1] * singles, *others.round().astype(int)]), rng)


def sample_usual_task(data: FeatureSet, seed: int, index: int) -> Episode:
    """A task as people have them: 2 to 6 classes of 1 to 50 images."""
    rng = numpy_rng(seed, data.name, "usual", index)
    return sample_task(data, any_shot(rng, int(rng.integers(2, 7)), *USUAL_SIZES), rng)


def change_labels(labels: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Labels [N] of which a share, at least one, is changed to another class; no class is emptied.

    >>> change_labels(torch.tensor([0, 0, 1, 1]), 0.25, np.random.default_rng(0))
    tensor([0, 0, 0, 1])
    """
    changed = labels.clone()
    way = int(labels.max()) + 1
    for i in rng.permutation(len(labels))[: max(1, round(share * len(labels)))].tolist():
        if (changed == changed[i]).sum() > 1:
            changed[i] = (changed[i] + int(rng.integers(1, way))) % way
    return changed


def prepare_episode(episode: Episode, damping: WithinClassDamping | None = None) -> PreparedEpisode:
    """Compute once what stays the same during meta-training: coordinates and fixed heads."""
    with torch.no_grad():
        views = make_views(episode.support, episode.labels, episode.widths, damping)
        return PreparedEpisode(
            [view.support for view in views],
            [view.frame(episode.query) for view in views],
            episode.query_labels,
            fit_fixed(views[0].support),
        )


def _concatenate(rows: list[Features]) -> tuple[Tensor, Tensor]:
    """All rows, and the index of the array that each comes from."""
    labels = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(r) for r in rows]))
    return torch.from_numpy(np.concatenate(rows)), labels
