"""The learner: heads with different assumptions at several depths, and the mixture over them.

A backbone may give several blocks of features: first its last layer, then earlier stages. Most
heads see the last layer. The others are discriminants on one earlier stage each, on the last layer
and the second block together and on all blocks, and a kernel on all blocks. If there is one block
only, all heads see it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.discriminant import Discriminant
from anyshot.classifier.heads.kernel_ridge import KernelRidge
from anyshot.classifier.heads.logistic import fit_logistic
from anyshot.classifier.heads.mixture import (
    Mixture,
    MixtureWeights,
    class_evidence,
)
from anyshot.classifier.heads.near_copies import group_near_copies, merge_groups
from anyshot.classifier.heads.support_set import (
    ProjectedFeatures,
    SupportSet,
    TaskCoordinates,
    View,
    WithinClassDamping,
    make_support_set,
)
from anyshot.classifier.heads.taml import TamlHead

Head = Callable[[ProjectedFeatures], Tensor]  # images to log-probabilities [m, C]
#: heads without meta-learned numbers
FIXED: dict[str, Callable[[SupportSet], tuple[Head, Tensor]]] = {"logistic": fit_logistic}
#: heads with meta-learned numbers on the last layer; the two discriminants start differently
LAST_LAYER = ("discriminant", "shrunk discriminant", "TAML", "kernel")
#: the blocks of each view; the first view is that of FIXED and LAST_LAYER
VIEWS = ((0,), (1,), (2,), (3,), (0, 1), (0, 1, 2, 3))
#: discriminants on the other views, in their order
DEEPER = ("second block", "third block", "fourth block", "first two blocks", "all blocks")
#: a kernel on the last view
DEEP_KERNEL = "kernel, all blocks"
HEADS = (*FIXED, *LAST_LAYER, *DEEPER, DEEP_KERNEL)
VIEW_OF_HEAD = (
    *(0 for _ in (*FIXED, *LAST_LAYER)),
    *range(1, len(VIEWS)),
    len(VIEWS) - 1,
)


@dataclass(frozen=True)
class TaskView:
    """One view of a task: its coordinates, and the support images in them."""

    frame: TaskCoordinates
    support: SupportSet


@dataclass(frozen=True)
class AdaptedLearner:
    """The heads and their mixture, fitted to a task."""

    views: tuple[TaskView, ...]  # one, or one for each of VIEWS
    heads: tuple[Head, ...]
    weights: MixtureWeights
    held_out: Tensor  # [N, C], held-out log-probabilities of the support images
    groups: Tensor | None = None  # the support image that each image was merged into; None: itself
    #: the same task if each series counts as one image, for the expected accuracy; None: no series
    as_series: AdaptedLearner | None = None

    @property
    def group_of_image(self) -> Tensor:
        """For each image that was given, the support image that it counts as."""
        return torch.arange(len(self.held_out)) if self.groups is None else self.groups

    @property
    def frame(self) -> TaskCoordinates:
        """Coordinates of the last layer's features."""
        return self.views[0].frame

    @property
    def support(self) -> SupportSet:
        """The support images, by the last layer's features."""
        return self.views[0].support

    @torch.no_grad()
    def head_outputs(self, features: Tensor) -> Tensor:
        """Log-probabilities [K, m, C] of every head."""
        points = [view.frame(features.to(self.weights.omega.dtype)) for view in self.views]
        return apply_heads(self.heads, points)

    @torch.no_grad()
    def __call__(self, features: Tensor) -> Tensor:
        """Log-probabilities [m, C] of features [m, d]; a row depends on its image only."""
        return self.weights(self.head_outputs(features))

    def under_prior(self, shares: Tensor) -> AdaptedLearner:
        """The same learner for classes whose shares among new images are `shares` [C]."""
        omega = self.weights.omega * shares.to(self.weights.omega) * len(shares)
        tilted = self.held_out + shares.to(self.held_out).log()
        return dataclasses.replace(
            self,
            weights=dataclasses.replace(self.weights, omega=omega),
            held_out=tilted.log_softmax(1),
            as_series=self.as_series and self.as_series.under_prior(shares),
        )


class Learner(nn.Module):
    """The meta-trained learner: priors of the closed-form heads, TAML's networks, the mixture.

    >>> features, labels = torch.rand(20, 64), torch.arange(20) % 4
    >>> Learner().adapt(features, labels)(torch.rand(3, 64)).shape
    torch.Size([3, 4])
    """

    directions: Tensor
    share: Tensor
    widths: Tensor  # of the blocks of features that the learner was trained on; none: one block

    def __init__(
        self, damping: WithinClassDamping | None = None, widths: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.register_buffer("widths", torch.tensor(widths, dtype=torch.int64))
        damping = damping or WithinClassDamping(torch.zeros(0, 0), torch.zeros(0))
        self.register_buffer("directions", damping.directions.half())
        self.register_buffer("share", damping.share.half())
        self.learned = nn.ModuleList(
            [
                Discriminant(),
                Discriminant(log_nu=6.0),
                TamlHead(),
                KernelRidge(),
                *(Discriminant(log_nu=6.0) for _ in DEEPER),
                KernelRidge(),
            ]
        )
        self.mixture = Mixture(len(HEADS))

    @property
    def damping(self) -> WithinClassDamping | None:
        """The damping for features of the backbone that the learner was trained on, if any."""
        return WithinClassDamping(self.directions, self.share) if len(self.share) else None

    def fit_heads(
        self,
        supports: Sequence[SupportSet],
        fixed: list[tuple[Head, Tensor]] | None = None,
    ) -> tuple[list[Head], Tensor]:
        """The fitted heads, and their held-out log-probabilities [K, N, C] of support images.

        `supports` are the task's views.
        """
        fitted = fixed or fit_fixed(supports[0])
        places = VIEW_OF_HEAD[len(FIXED) :]
        fitted = [
            *fitted,
            *(
                head(supports[place % len(supports)])
                for head, place in zip(self.learned, places, strict=True)
            ),
        ]
        return [head for head, _ in fitted], torch.stack([held_out for _, held_out in fitted])

    @torch.no_grad()
    def adapt_for_use(
        self,
        features: Tensor,
        labels: Tensor,
        native: bool = True,
        widths: Sequence[int] = (),
        merge: bool = True,
    ) -> AdaptedLearner:
        """Fit a task as the classifier does: as `adapt`, and near-copies count as one image.

        Its features are the mean of theirs. Without `merge` each image counts.
        """
        if not merge:
            return self.adapt(features, labels, native, widths)
        edges = block_edges(features, self._block_widths(features, native, widths))
        copies, series = group_near_copies(View(tuple(edges))(features), labels, len(edges) == 1)
        adapted = self._adapt_groups(features, labels, native, widths, copies)
        if torch.equal(copies, series):
            return adapted
        as_series = self._adapt_groups(features, labels, native, widths, series)
        return dataclasses.replace(adapted, as_series=as_series)

    def _adapt_groups(
        self,
        features: Tensor,
        labels: Tensor,
        native: bool,
        widths: Sequence[int],
        groups: Tensor,
    ) -> AdaptedLearner:
        """Fit a task in which each group counts as one image."""
        merged = merge_groups(features, groups)
        labels = labels.new_zeros(len(merged)).scatter(0, groups, labels)
        adapted = self.adapt(merged, labels, native, widths)
        return dataclasses.replace(adapted, groups=groups)

    @torch.no_grad()
    def adapt(
        self,
        features: Tensor,
        labels: Tensor,
        native: bool = True,
        widths: Sequence[int] = (),
    ) -> AdaptedLearner:
        """Fit a task: features [N, d], labels [N] in 0..C−1, no class empty.

        `native`: the features come from the backbone that the learner was trained on, so that its
        damping applies to them. `widths` are those of the blocks of features; by default those that
        the learner was trained on if they fit, otherwise one block.
        """
        widths = self._block_widths(features, native, widths)
        views = make_views(features, labels, widths, self.damping if native else None)
        heads, held_out = self.fit_heads([view.support for view in views])
        support = views[0].support
        weights = self.mixture(class_evidence(support, held_out), support.counts)
        return AdaptedLearner(
            views=tuple(
                TaskView(_to_double(view.frame), _to_double(view.support)) for view in views
            ),
            heads=tuple(_to_double(head) for head in heads),
            weights=_to_double(weights),
            held_out=weights(held_out),
        )

    def _block_widths(self, features: Tensor, native: bool, widths: Sequence[int]) -> Sequence[int]:
        """The given widths of blocks, or those that the learner was trained on if they fit."""
        if not widths and native and int(self.widths.sum()) == features.shape[1]:
            return self.widths.tolist()
        return widths


def block_edges(features: Tensor, widths: Sequence[int]) -> list[tuple[int, int]]:
    """First column and end of each block of features of these widths; none: one block."""
    return list(pairwise(accumulate(widths or (features.shape[1],), initial=0)))


def make_views(
    features: Tensor,
    labels: Tensor,
    widths: Sequence[int] = (),
    damping: WithinClassDamping | None = None,
) -> list[TaskView]:
    """The views of a task with blocks of these widths: one if there is one block."""
    edges = block_edges(features, widths)
    chosen = VIEWS if len(edges) > 1 else VIEWS[:1]
    views = []
    for blocks in chosen:
        view = View(
            tuple(edges[min(b, len(edges) - 1)] for b in blocks),
            damping if blocks[0] == 0 else None,
        )
        views.append(TaskView(*make_support_set(features, labels, view)))
    return views


def apply_heads(heads: Sequence[Head], points: Sequence[ProjectedFeatures]) -> Tensor:
    """Log-probabilities [K, m, C] of images that are given in each view of the task."""
    return torch.stack(
        [head(points[v % len(points)]) for head, v in zip(heads, VIEW_OF_HEAD, strict=True)]
    )


def fit_fixed(support: SupportSet) -> list[tuple[Head, Tensor]]:
    """The heads without meta-learned numbers, each with its held-out log-probabilities [N, C]."""
    return [fit(support) for fit in FIXED.values()]


def _to_double(part: Any) -> Any:
    """A fitted part in double precision.

    Rounding must not make an image's answer depend on the other images of its batch.
    """
    floats = {
        name: value.double()
        for name, value in vars(part).items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    return dataclasses.replace(part, **floats)
