"""A task on vectors, as every head sees it: in the few coordinates that its own images span.

All heads depend on inner products alone, and N images span at most N dimensions: of its d numbers an image keeps
r = min(N, d), and of a new image what lies outside the span counts only by its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FOLDS = 5


@dataclass(frozen=True)
class WithinClassDamping:
    """Directions [d, k] in which a backbone's features vary within classes of any kind; the share [k] of it that goes.

    (I − V diag(share) Vᵀ) x is cheap, and needs k of d directions.
    """

    directions: Tensor
    share: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Vectors [m, d] with less of what does not tell classes apart."""
        directions = self.directions.to(x)
        return x - (x @ directions * self.share.to(x)) @ directions.t()


def signed_sqrt_normalize(features: Tensor, damping: WithinClassDamping | None = None) -> Tensor:
    """Square root (with the sign), damped, then unit length: pooled ReLU features become nearly Gaussian.

    >>> root(torch.tensor([[4.0, 0.0, -9.0]])) * 13**0.5
    tensor([[ 2.,  0., -3.]])
    """
    x = features.sign() * features.abs().sqrt()
    x = x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return x if damping is None else torch.nn.functional.normalize(damping(x), dim=1)


def squares(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances [m, n] of the rows of a [m, r] to those of b [n, r]."""
    return (a.square().sum(1)[:, None] - 2 * a @ b.t() + b.square().sum(1)).clamp_min(0)


@dataclass(frozen=True)
class ProjectedFeatures:
    """Images in a task's coordinates: z [m, r], and the squared length of what lies outside them, rest [m]."""

    z: Tensor
    rest: Tensor


@dataclass(frozen=True)
class TaskCoordinates:
    """A task's coordinates: the origin is the mean of the class means, the unit the mean distance from it."""

    origin: Tensor  # [d]
    basis: Tensor | None  # [d, r], orthonormal; None: all d
    unit: Tensor
    damping: WithinClassDamping | None

    def centred(self, features: Tensor) -> Tensor:
        """Features [m, d] as seen from the origin."""
        return (signed_sqrt_normalize(features, self.damping) - self.origin) / self.unit

    def __call__(self, features: Tensor) -> ProjectedFeatures:
        """Features [m, d] in these coordinates."""
        x = self.centred(features)
        if self.basis is None:
            return ProjectedFeatures(x, x.new_zeros(len(x)))
        z = x @ self.basis
        return ProjectedFeatures(z, (x.square().sum(1) - z.square().sum(1)).clamp_min(0))


@dataclass(frozen=True)
class SupportSet:
    """Labelled images of a task: z [N, r], labels [N] in 0..C−1 and, for cross-validation, the fold of each image."""

    z: Tensor
    labels: Tensor
    n: Tensor  # [C], float: images of each class
    folds: Tensor  # [N]; −1: never left out, since it is alone in its class
    width: int  # d

    @property
    def way(self) -> int:
        """Number of classes C."""
        return len(self.n)

    @property
    def points(self) -> ProjectedFeatures:
        """The images as a query."""
        return ProjectedFeatures(self.z, self.z.new_zeros(len(self.z)))

    def kept(self) -> Tensor:
        """Ones and zeros [1 + folds, N]: which images are seen by the head of all, and by those without a fold."""
        left_out = self.folds.new_tensor([-2, *range(int(self.folds.max()) + 1)])  # −2 is nobody's
        return (self.folds != left_out[:, None]).to(self.z)

    def unseen(self, by_fold: Tensor) -> Tensor:
        """Of answers [1 + folds, N, C] those [N, C] of heads that had not seen the image (if it is alone: number 0)."""
        return by_fold[self.folds + 1, torch.arange(len(self.z))]

    def balanced(self) -> Tensor:
        """w_n = N / (C · n_c): every class counts the same, the mean weight is 1."""
        return len(self.labels) / (self.way * self.n)[self.labels]

    def means(self, z: Tensor | None = None) -> Tensor:
        """Class means [C, r] of z (default: the images)."""
        z = self.z if z is None else z
        return z.new_zeros(self.way, z.shape[1]).index_add(0, self.labels, z) / self.n[:, None]


def make_support_set(
    features: Tensor, labels: Tensor, damping: WithinClassDamping | None = None
) -> tuple[TaskCoordinates, SupportSet]:
    """A task's coordinates and its images in them, of features [N, d] and labels [N]; no class may be empty."""
    x = signed_sqrt_normalize(features, damping)
    n = torch.bincount(labels).to(x)
    means = x.new_zeros(len(n), x.shape[1]).index_add(0, labels, x) / n[:, None]
    origin = means.mean(0)
    x = x - origin
    unit = x.norm(dim=1).mean().clamp_min(1e-6)
    basis = torch.linalg.qr(x.t()).Q if len(x) < x.shape[1] else None
    frame = TaskCoordinates(origin, basis, unit, damping)
    z = frame(features).z
    return frame, SupportSet(z, labels, n, _folds(z, labels, n), x.shape[1])


def _folds(z: Tensor, labels: Tensor, n: Tensor) -> Tensor:
    """Deal each class to the folds by distance from its mean, so that easy and hard images are spread evenly."""
    folds, offset, most = torch.full_like(labels, -1), 0, min(FOLDS, len(labels))
    for c in range(len(n)):
        own = (labels == c).nonzero()[:, 0]
        if len(own) > 1:
            order = own[(z[own] - z[own].mean(0)).square().sum(1).argsort()]
            folds[order] = (torch.arange(len(own)) + offset) % most
            offset += len(own)
    return folds
