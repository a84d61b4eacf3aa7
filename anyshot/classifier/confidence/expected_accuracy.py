"""The accuracy to expect of a task before there is a test set: what its own images say, and what is usual.

Shares are angles here, φ(p) = arcsin √p: a share of n images has the variance 1 / (4n + 2) whatever it is, so that all
hits of few images are neither certain nor infinitely far out (Anscombe 1948).

Each support image was answered by heads that had not seen it. The share r of hits among them, each class of two or
more images counting the same, is worth n = k² / Σ 1/n_c images (k classes). It says

    e = φ(r) + mend · (few, alone),    of variance  blur = 1 / (4n + 2) + b₀ + b₁ few² + b₂ alone²

where few = mean of log(n_c / (n_c − 1)), since heads without an image are worse than those with it, and alone is the
share of classes of one image, of which nothing was left out: they are usually worse. What is usual, the guess g, is
linear in the confidence on images left out, in chance and in alone; it is off by the variance τ², by another one where
no class has two images. Both weigh as they are precise, so that many images left out outweigh what is usual:

    w = τ² / (τ² + blur)  (0 where nothing was left out),    mean = w e + (1 − w) g,    variance = (1 − w) τ²

A test of M images adds 1 / (4M + 2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.learner import AdaptedLearner

SEEN, USUAL = (
    3,
    4,
)  # of task_evidence, the first are what images left out say, the others what the guess is made of
LEVEL, DEVIATIONS = 0.9, 1.645  # of the interval
TEST = 15  # images a class in the test that the interval is about


class Accuracy(nn.Module):
    """Meta-learned: the guess, what images left out do not show, how far both are off, and the width that held."""

    margin: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.guess = nn.Linear(USUAL, 1)
        nn.init.zeros_(self.guess.weight)
        nn.init.zeros_(self.guess.bias)
        self.mend = nn.Parameter(torch.zeros(2))  # for few and alone
        self.blur = nn.Parameter(torch.full((3,), -3.0))  # logarithms of b₀, b₁, b₂
        self.doubt = nn.Parameter(
            torch.full((2,), -2.0)
        )  # of τ²: with images left out, and without
        self.register_buffer(
            "margin", torch.tensor(1.0)
        )  # deviations on sets left out, as a share of the usual ones

    def usual(self, x: Tensor) -> Tensor:
        """The guess [T] of tasks with the evidence [T, 7]."""
        return self.guess(x[:, SEEN:])[:, 0]

    def forward(self, x: Tensor, guess: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances [T] of the angle of the accuracy on so many images, of evidence and guesses."""
        share, worth, few, alone = x[:, : SEEN + 1].unbind(1)
        shown, blur = share + self.mend[0] * few + self.mend[1] * alone, self.blur.exp()
        off = 1 / (4 * worth + 2) + blur[0] + blur[1] * few.square() + blur[2] * alone.square()
        doubt = self.doubt.exp()[(worth == 0).long()]
        w = (worth > 0) * doubt / (doubt + off)
        return w * shown + (1 - w) * guess, (1 - w) * doubt + 1 / (4 * asked + 2)

    def interval(self, adapted: AdaptedLearner) -> tuple[float, float, float]:
        """Accuracy to expect of a test of TEST images a class, and where it lies 90 % of the time."""
        x = task_evidence(adapted).to(self.margin)[None]
        asked = x.new_tensor([TEST * adapted.support.way])
        mean, variance = self(x, self.usual(x), asked)
        least = angle(0.5 / asked)  # half an image: nothing is certain
        mean = mean.clamp(least, torch.pi / 2 - least)
        reach = DEVIATIONS * self.margin * variance.sqrt()
        found = torch.cat([mean, mean - reach, mean + reach]).clamp(0, torch.pi / 2).sin().square()
        expected, low, high = found.tolist()
        return expected, low, high


def angle(share: Tensor) -> Tensor:
    """φ(p) = arcsin √p.

    >>> angle(torch.tensor([0.0, 0.5, 1.0])) / torch.pi
    tensor([0.0000, 0.2500, 0.5000])
    """
    return share.clamp(0, 1).sqrt().asin()


def angle_of(hits: Tensor, asked: Tensor) -> Tensor:
    """The angle of a share of hits, known from so many images."""
    return angle((hits + 0.375) / (asked + 0.75))


def task_evidence(adapted: AdaptedLearner) -> Tensor:
    """What is known of a task's accuracy, [7]: φ(r), n, few; alone, φ(confidence), φ(chance), nothing was left out."""
    support, p = adapted.support, adapted.held_out.to(adapted.support.z).exp()
    several = support.n > 1
    alone, chance = (~several).to(p).mean(), angle(p.new_tensor(1 / support.way))
    if not several.any():
        return torch.stack([*p.new_zeros(3), alone, p.new_zeros(()), chance, p.new_ones(())])
    n = support.n[several]
    worth = len(n) ** 2 / (1 / n).sum()
    hits, sure = (
        by_class(adapted, v)[several].mean()
        for v in ((p.argmax(1) == support.labels).to(p), p.max(1).values)
    )
    few = (n / (n - 1)).log().mean()
    return torch.stack(
        [angle_of(hits * worth, worth), worth, few, alone, angle(sure), chance, p.new_zeros(())]
    )


def by_class(adapted: AdaptedLearner, values: Tensor) -> Tensor:
    """Means [C] of what was found for each support image [N]."""
    support = adapted.support
    return values.new_zeros(support.way).index_add(0, support.labels, values) / support.n
