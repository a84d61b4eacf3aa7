"""The learner on features: heads of different assumptions, and the mixture that weighs them class by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.discriminant import Discriminant
from anyshot.classifier.heads.kernel_ridge import KernelRidge
from anyshot.classifier.heads.logistic import fit_logistic
from anyshot.classifier.heads.mixture import Mixture, Weights, evidence
from anyshot.classifier.heads.support_set import (
    ProjectedFeatures,
    SupportSet,
    TaskCoordinates,
    WithinClassDamping,
    make_support_set,
)
from anyshot.classifier.heads.taml import TamlHead

Head = Callable[[ProjectedFeatures], Tensor]  # images to log-probabilities [m, C]
FIXED: dict[str, Callable[[SupportSet], tuple[Head, Tensor]]] = {
    "logistic": fit_logistic
}  #: no meta-learned numbers
LEARNED = (
    "discriminant",
    "shrunk discriminant",
    "TAML",
    "kernel",
)  #: discriminants differ by where they start
HEADS = (*FIXED, *LEARNED)


@dataclass(frozen=True)
class AdaptedLearner:
    """A task that was learned; ready for any number of images, one at a time or together."""

    frame: TaskCoordinates
    support: SupportSet
    heads: tuple[Head, ...]
    weights: Weights
    held_out: (
        Tensor  # [N, C], log-probabilities of the support images by heads that had not seen them
    )

    @torch.no_grad()
    def __call__(self, features: Tensor) -> Tensor:
        """Log-probabilities [m, C] of features [m, d]."""
        points = self.frame(features.double())
        return self.weights(torch.stack([head(points) for head in self.heads]))


class Learner(nn.Module):
    """What meta-training leaves behind: the beliefs of the closed forms and the mixture's net.

    >>> features, labels = torch.rand(20, 64), torch.arange(20) % 4
    >>> Learner().adapt(features, labels)(torch.rand(3, 64)).shape
    torch.Size([3, 4])
    """

    directions: Tensor
    share: Tensor

    def __init__(self, damping: WithinClassDamping | None = None) -> None:
        super().__init__()
        damping = damping or WithinClassDamping(torch.zeros(0, 0), torch.zeros(0))
        self.register_buffer("directions", damping.directions.half())
        self.register_buffer("share", damping.share.half())
        self.learned = nn.ModuleList(
            [Discriminant(), Discriminant(log_nu=6.0), TamlHead(), KernelRidge()]
        )
        self.mixture = Mixture(len(HEADS))

    def fit_heads(
        self, support: SupportSet, fixed: list[tuple[Head, Tensor]] | None = None
    ) -> tuple[list[Head], Tensor]:
        """Heads, and their log-probabilities of unseen support images [K, N, C]."""
        fitted = [*(fixed or fit_fixed(support)), *(head(support) for head in self.learned)]
        return [head for head, _ in fitted], torch.stack([seen for _, seen in fitted])

    @property
    def damping(self) -> WithinClassDamping | None:
        """Of the features of the backbone that it was made on, if it was learned."""
        return WithinClassDamping(self.directions, self.share) if len(self.share) else None

    @torch.no_grad()
    def adapt(self, features: Tensor, labels: Tensor, native: bool = True) -> AdaptedLearner:
        """Learn a task: features [N, d], labels [N] in 0..C−1, no class empty.

        `native`: the features are by the backbone that the learner was made on, so that its damping is theirs.
        """
        frame, support = make_support_set(features, labels, self.damping if native else None)
        heads, held_out = self.fit_heads(support)
        weights = self.mixture(evidence(support, held_out))
        return AdaptedLearner(
            _double(frame),
            _double(support),
            tuple(_double(h) for h in heads),
            _double(weights),
            weights(held_out),
        )


def _double(part: Any) -> Any:
    """A fitted part in double precision: an answer must not depend, not even by rounding, on the images beside it."""
    floats = {
        n: t.double()
        for n, t in vars(part).items()
        if isinstance(t, Tensor) and t.is_floating_point()
    }
    return dataclasses.replace(part, **floats)


def fit_fixed(support: SupportSet) -> list[tuple[Head, Tensor]]:
    """The heads that meta-training does not touch, each with its log-probabilities of unseen support images."""
    return [fit(support) for fit in FIXED.values()]
