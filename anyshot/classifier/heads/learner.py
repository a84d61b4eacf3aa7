"""The learner: five heads with different assumptions, and the mixture that weighs them by class."""

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
from anyshot.classifier.heads.mixture import Mixture, MixtureWeights, class_evidence
from anyshot.classifier.heads.support_set import (
    ProjectedFeatures,
    SupportSet,
    TaskCoordinates,
    WithinClassDamping,
    make_support_set,
)
from anyshot.classifier.heads.taml import TamlHead

Head = Callable[[ProjectedFeatures], Tensor]  # images to log-probabilities [m, C]
#: heads without meta-learned numbers
FIXED: dict[str, Callable[[SupportSet], tuple[Head, Tensor]]] = {"logistic": fit_logistic}
#: heads with meta-learned numbers; the two discriminants differ in their initial prior
LEARNED = ("discriminant", "shrunk discriminant", "TAML", "kernel")
HEADS = (*FIXED, *LEARNED)


@dataclass(frozen=True)
class AdaptedLearner:
    """The heads and their mixture, fitted to a task."""

    frame: TaskCoordinates
    support: SupportSet
    heads: tuple[Head, ...]
    weights: MixtureWeights
    held_out: Tensor  # [N, C], held-out log-probabilities of the support images

    @torch.no_grad()
    def __call__(self, features: Tensor) -> Tensor:
        """Log-probabilities [m, C] of features [m, d]; a row depends on its image only."""
        points = self.frame(features.double())
        return self.weights(torch.stack([head(points) for head in self.heads]))

    def under_prior(self, shares: Tensor) -> AdaptedLearner:
        """The same learner for classes whose shares among new images are `shares` [C]."""
        omega = self.weights.omega * shares.to(self.weights.omega) * len(shares)
        tilted = self.held_out + shares.to(self.held_out).log()
        return dataclasses.replace(
            self,
            weights=dataclasses.replace(self.weights, omega=omega),
            held_out=tilted.log_softmax(1),
        )


class Learner(nn.Module):
    """The meta-trained learner: priors of the closed-form heads, TAML's networks, the mixture.

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

    @property
    def damping(self) -> WithinClassDamping | None:
        """The damping for features of the backbone that the learner was trained on, if any."""
        return WithinClassDamping(self.directions, self.share) if len(self.share) else None

    def fit_heads(
        self, support: SupportSet, fixed: list[tuple[Head, Tensor]] | None = None
    ) -> tuple[list[Head], Tensor]:
        """The fitted heads, and their held-out log-probabilities [K, N, C] of support images."""
        fitted = [*(fixed or fit_fixed(support)), *(head(support) for head in self.learned)]
        return [head for head, _ in fitted], torch.stack([held_out for _, held_out in fitted])

    @torch.no_grad()
    def adapt(self, features: Tensor, labels: Tensor, native: bool = True) -> AdaptedLearner:
        """Fit a task: features [N, d], labels [N] in 0..C−1, no class empty.

        `native`: the features come from the backbone that the learner was trained on, so that its
        damping applies to them.
        """
        frame, support = make_support_set(features, labels, self.damping if native else None)
        heads, held_out = self.fit_heads(support)
        weights = self.mixture(class_evidence(support, held_out))
        return AdaptedLearner(
            frame=_to_double(frame),
            support=_to_double(support),
            heads=tuple(_to_double(head) for head in heads),
            weights=_to_double(weights),
            held_out=weights(held_out),
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
