"""The support set of a task in the coordinates that its own images span.

All heads depend on inner products only, and N images span at most N dimensions. An image therefore
keeps r = min(N, d) of its d numbers. Of a new image, the part outside the span counts only by its
squared length (the residual).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FOLDS = 5
SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class WithinClassDamping:
    """Shrinks directions in which a backbone's features vary within classes of any kind.

    directions [d, k] are the k columns of V; share [k] is how much of each direction is removed:
    x ↦ (I − V diag(share) Vᵀ) x.
    """

    directions: Tensor
    share: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Damped vectors [m, d]."""
        directions = self.directions.to(x)
        return x - (x @ directions * self.share.to(x)) @ directions.t()


def signed_sqrt_normalize(features: Tensor, damping: WithinClassDamping | None = None) -> Tensor:
    """Signed square root, unit length, damping, unit length [m, d].

    Pooled ReLU features become nearly Gaussian by the square root.

    >>> signed_sqrt_normalize(torch.tensor([[4.0, 0.0, -9.0]])) * 13**0.5
    tensor([[ 2.,  0., -3.]])
    """
    x = features.sign() * features.abs().sqrt()
    norm = x.norm(dim=1, keepdim=True)
    extreme = (norm < SMALLEST_NORM) | norm.isinf()  # the squares under- or overflow
    if torch.compiler.is_compiling() or extreme.any():  # a graph has no branches
        largest = x.abs().amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        x = torch.where(extreme, x / largest, x)
        norm = x.norm(dim=1, keepdim=True)
    x = x / norm.clamp_min(SMALLEST_NORM)
    return x if damping is None else torch.nn.functional.normalize(damping(x), dim=1)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances [m, n] between the rows of a [m, r] and those of b [n, r]."""
    return (a.square().sum(1)[:, None] - 2 * a @ b.t() + b.square().sum(1)).clamp_min(0)


@dataclass(frozen=True)
class ProjectedFeatures:
    """Images in a task's coordinates: z [m, r], and the squared length outside, residual [m]."""

    z: Tensor
    residual: Tensor


@dataclass(frozen=True)
class View:
    """The part of a feature vector that some heads see: columns (start, stop) of its blocks.

    Each block is normalised by itself, so that all blocks count the same. The damping applies to
    the first block.
    """

    blocks: tuple[tuple[int, int], ...]
    damping: WithinClassDamping | None = None

    def __call__(self, features: Tensor) -> Tensor:
        """Normalised vectors [m, d] of features [m, all columns]."""
        parts = [
            signed_sqrt_normalize(features[:, start:stop], None if i else self.damping)
            for i, (start, stop) in enumerate(self.blocks)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1) / len(parts) ** 0.5


@dataclass(frozen=True)
class TaskCoordinates:
    """A task's coordinate system for one view of the features.

    The origin is the mean of the class means; the unit is the mean distance of images from it.
    """

    origin: Tensor  # [d]
    basis: Tensor | None  # [d, r], orthonormal; None: all d dimensions
    unit: Tensor
    view: View

    def centre(self, features: Tensor) -> Tensor:
        """Features [m, all columns] relative to the origin, in units, [m, d]."""
        return (self.view(features) - self.origin) / self.unit

    def __call__(self, features: Tensor) -> ProjectedFeatures:
        """Project features [m, all columns]."""
        x = self.centre(features)
        if self.basis is None:
            return ProjectedFeatures(x, x.new_zeros(x.shape[0]))
        z = x @ self.basis
        return ProjectedFeatures(z, (x.square().sum(1) - z.square().sum(1)).clamp_min(0))


@dataclass(frozen=True)
class SupportSet:
    """Labelled images of a task: z [N, r], labels [N] in 0..C−1, and cross-validation folds [N]."""

    z: Tensor
    labels: Tensor
    counts: Tensor  # [C], float: images of each class
    folds: Tensor  # [N]; −1: never held out, because it is the only image of its class
    width: int  # d

    @property
    def way(self) -> int:
        """Number of classes C."""
        return len(self.counts)

    @property
    def points(self) -> ProjectedFeatures:
        """The support images as a query."""
        return ProjectedFeatures(self.z, self.z.new_zeros(len(self.z)))

    def fold_masks(self) -> Tensor:
        """Training masks [1 + folds, N] of ones and zeros.

        Row 0 keeps all images; row 1 + f leaves fold f out.
        """
        left_out = self.folds.new_tensor([-2, *range(int(self.folds.max()) + 1)])  # −2: no image
        return (self.folds != left_out[:, None]).to(self.z)

    def select_held_out(self, by_fold: Tensor) -> Tensor:
        """Of the outputs [1 + folds, N, C], those [N, C] of the head that did not see the image.

        An image that is alone in its class is never held out; its output is that of row 0.
        """
        return by_fold[self.folds + 1, torch.arange(len(self.z))]

    def balanced_weights(self) -> Tensor:
        """w_n = N / (C · n_c) [N]: every class counts the same, and the mean weight is 1."""
        return len(self.labels) / (self.way * self.counts)[self.labels]

    def class_means(self) -> Tensor:
        """Class means [C, r]."""
        sums = self.z.new_zeros(self.way, self.z.shape[1]).index_add(0, self.labels, self.z)
        return sums / self.counts[:, None]

    def class_geometry(self) -> tuple[Tensor, Tensor]:
        """Of each class [C]: the sum of squared residuals, and the distance to the nearest mean."""
        means = self.class_means()
        squares = (self.z - means[self.labels]).square().sum(1)
        spread = torch.zeros_like(self.counts).index_add(0, self.labels, squares)
        nearest = torch.cdist(means, means).fill_diagonal_(float("inf")).min(1).values
        return spread, nearest


def make_support_set(
    features: Tensor, labels: Tensor, view: View | None = None
) -> tuple[TaskCoordinates, SupportSet]:
    """Coordinates and support set of features [N, d] with labels [N]; no class may be empty.

    Without a `view`, the heads see all features as one block.
    """
    view = view or View(((0, features.shape[1]),))
    x = view(features)
    counts = torch.bincount(labels).to(x)
    means = x.new_zeros(len(counts), x.shape[1]).index_add(0, labels, x) / counts[:, None]
    origin = means.mean(0)
    x = x - origin
    unit = x.norm(dim=1).mean().clamp_min(1e-6)
    basis = torch.linalg.qr(x.t()).Q if len(x) < x.shape[1] else None
    frame = TaskCoordinates(origin, basis, unit, view)
    z = frame(features).z
    return frame, SupportSet(z, labels, counts, _assign_folds(z, labels, counts), x.shape[1])


def _assign_folds(z: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Folds [N]: the images of each class, sorted by distance from its mean, take turns.

    This makes the folds about equally hard.
    """
    folds = torch.full_like(labels, -1)
    count = min(FOLDS, len(labels))
    offset = 0
    for c in range(len(counts)):
        members = (labels == c).nonzero()[:, 0]
        if len(members) > 1:
            distances = (z[members] - z[members].mean(0)).square().sum(1)
            folds[members[distances.argsort()]] = (torch.arange(len(members)) + offset) % count
            offset += len(members)
    return folds
