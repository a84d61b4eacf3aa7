"""Heads that look at class means only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyshot.heads.support import Points, Support

SCALE = 10.0  # of the cosine; the mixture finds a task's own


@dataclass(frozen=True)
class Cosine:
    """log-softmax of SCALE · cos(x, p_c), p_c the mean direction of a class."""

    prototypes: Tensor  # [C, r], unit length

    def __call__(self, points: Points) -> Tensor:
        """Log-probabilities [m, C]."""
        length = (points.z.square().sum(1) + points.rest).sqrt().clamp_min(1e-6)
        return (SCALE * (points.z / length[:, None]) @ self.prototypes.t()).log_softmax(1)


def fit_cosine(support: Support) -> tuple[Cosine, Tensor]:
    """The head, and log-probabilities [N, C] of the support images, each compared with the others' means."""
    unit = torch.nn.functional.normalize(support.z, dim=1)
    means = support.means(unit)
    head = Cosine(torch.nn.functional.normalize(means, dim=1))
    n = support.n[support.labels][:, None]
    others = torch.nn.functional.normalize(n * means[support.labels] - unit, dim=1)  # the class without the image
    own = torch.where(n[:, 0] > 1, (unit * others).sum(1), 0.0)
    cosines = (unit @ head.prototypes.t()).scatter(1, support.labels[:, None], own[:, None])
    return head, (SCALE * cosines).log_softmax(1)
