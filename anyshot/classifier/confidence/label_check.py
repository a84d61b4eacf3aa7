"""Labels that look wrong, and near-duplicates.

Near-duplicates are pairs of images that are much closer to each other than images of the task
usually are to their nearest neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.confidence.label_features import label_features
from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import AdaptedLearner
from anyshot.classifier.heads.support_set import signed_sqrt_normalize, squared_distances

SUSPICIOUS = 0.3  # suspicion from which a label looks wrong: a look costs little
NEAR = 0.48  # of the usual distance of nearest neighbours: below it, two images look the same
USUAL = 0.75  # the usual distance is this quantile, so that half of the images may be duplicates
CHUNK = 1000  # images compared with all others at once


@dataclass(frozen=True)
class CheckedLabel:
    """One support image: does its label look right?

    Attributes
    ----------
    index : int
        The image, as an index into `features_`.
    label, suggested : object
        Its label, and the most probable other class.
    probability : float
        Probability of its label by heads that were fitted without the image. The only image of a
        class cannot be left out; its probability says little.
    suspicion : float
        Probability that the label is wrong, if about one label in ten is; from 0.3 on, the label
        looks wrong.
    """

    index: int
    label: Any
    suggested: Any
    probability: float
    suspicion: float


@dataclass(frozen=True)
class DuplicatePair:
    """Two support images that look the same.

    Attributes
    ----------
    first, second : int
        The images, as indices into `features_`.
    similarity : float
        1 for equal images, 0 for the usual distance of nearest neighbours.
    same_label : bool
        Whether they have the same label.
    """

    first: int
    second: int
    similarity: float
    same_label: bool


@dataclass(frozen=True)
class LabelCheck:
    """The result of :meth:`AnyShotClassifier.check_labels`.

    Attributes
    ----------
    images : tuple of CheckedLabel
        All support images, the most suspicious first.
    duplicates : tuple of DuplicatePair
        Near-duplicates, pairs with two labels first.
    """

    images: tuple[CheckedLabel, ...]
    duplicates: tuple[DuplicatePair, ...]

    @property
    def suspects(self) -> tuple[CheckedLabel, ...]:
        """The images whose label looks wrong, the most suspicious first."""
        return tuple(image for image in self.images if image.suspicion >= SUSPICIOUS)


def check_task_labels(
    adapted: AdaptedLearner, confidence: ConfidenceModel, names: Sequence[Any]
) -> tuple[CheckedLabel, ...]:
    """Check the label of each support image; the most suspicious image comes first."""
    groups = adapted.group_of_image
    labels, held_out = adapted.support.labels[groups], adapted.held_out[groups]
    own = held_out.gather(1, labels[:, None])[:, 0].exp()
    other = held_out.scatter(1, labels[:, None], -torch.inf).argmax(1)
    suspicion = confidence.label_suspicion(label_features(adapted))[groups]
    order = torch.argsort(suspicion, descending=True, stable=True)
    return tuple(
        CheckedLabel(
            index=i,
            label=names[int(labels[i])],
            suggested=names[int(other[i])],
            probability=float(own[i]),
            suspicion=float(suspicion[i]),
        )
        for i in order.tolist()
    )


def find_near_duplicates(
    features: NDArray[np.float32], labels: NDArray[Any]
) -> tuple[DuplicatePair, ...]:
    """Pairs of rows [n, d] that look the same: those with two labels first, then by similarity.

    >>> find_near_duplicates(np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]], np.arange(5))
    (DuplicatePair(first=0, second=4, similarity=1.0, same_label=False),)
    """
    rows = signed_sqrt_normalize(torch.from_numpy(features).double())
    chunks = list(zip(range(0, len(rows), CHUNK), rows.split(CHUNK), strict=True))
    nearest = [
        squared_distances(chunk, rows).scatter_(1, _diagonal(start, chunk), torch.inf).amin(1)
        for start, chunk in chunks
    ]
    usual = torch.cat(nearest).sqrt().quantile(USUAL).clamp_min(1e-6)
    pairs = []
    for start, chunk in chunks:
        distance = squared_distances(chunk, rows[start:]).sqrt() / usual
        for a, b in (distance <= NEAR).triu(1).nonzero().tolist():
            first, second = start + a, start + b
            similarity = round(1 - float(distance[a, b]), 6)
            same = bool(labels[first] == labels[second])
            pairs.append(DuplicatePair(first, second, similarity, same))
    return tuple(sorted(pairs, key=lambda pair: (pair.same_label, -pair.similarity)))


def _diagonal(start: int, chunk: Tensor) -> Tensor:
    """Column [m, 1] of each row of a chunk that starts at a row."""
    return torch.arange(start, start + len(chunk))[:, None]
