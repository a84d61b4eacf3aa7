"""The expected accuracy of a task before there is a test set.

Shares are mapped to angles, φ(p) = arcsin √p: the angle of a share of n images has the variance
1 / (4n + 2) whatever the share is, so that all hits of few images are neither certain nor
infinitely far away (Anscombe, 1948).

Every support image was predicted by heads that did not see it. The share r of hits among them (each
class of two or more images counting the same) is worth n = k² / Σ 1/n_c images (k classes):

    e = φ(r) + mend · (few, alone),    with variance  blur = 1 / (4n + 2) + b₀ + b₁ few² + b₂ alone²

few is the mean of log(n_c / (n_c − 1)), because heads without an image are worse than heads with
it. alone is the share of classes of one image, of which nothing was held out; they are usually
worse. The prior guess g is linear in the held-out confidence, in chance and in alone. Its variance
is τ², with another value where no class has two images. Both estimates are combined by inverse
variance:

    w = τ² / (τ² + blur)  (0 where nothing was held out),    mean = w e + (1 − w) g
    variance = (1 − w) τ²

A test of M images adds 1 / (4M + 2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.learner import AdaptedLearner

HELD_OUT_FEATURES = 3  # of task_evidence, the first: what held-out images say
PRIOR_FEATURES = 4  # the others: the inputs of the prior guess
LEVEL = 0.9  # of the interval
DEVIATIONS = 1.645  # standard deviations on each side for that level
TEST_IMAGES = 15  # images of each class in the test that the interval is about


class AccuracyModel(nn.Module):
    """Meta-learned: prior guess, corrections, variances, and a margin for new data sets."""

    margin: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.guess = nn.Linear(PRIOR_FEATURES, 1)
        nn.init.zeros_(self.guess.weight)
        nn.init.zeros_(self.guess.bias)
        self.mend = nn.Parameter(torch.zeros(2))  # corrections for few and alone
        self.blur = nn.Parameter(torch.full((3,), -3.0))  # logarithms of b₀, b₁, b₂
        self.doubt = nn.Parameter(torch.full((2,), -2.0))  # log τ²: something held out, nothing
        # factor of the interval's width, found on held-out data sets
        self.register_buffer("margin", torch.tensor(1.0))

    def prior_guess(self, x: Tensor) -> Tensor:
        """The guess g [T] for tasks with evidence [T, 7]."""
        return self.guess(x[:, HELD_OUT_FEATURES:])[:, 0]

    def forward(self, x: Tensor, guess: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance [T] of the angle of the accuracy on `queries` [T] test images."""
        share, worth, few, alone = x[:, : HELD_OUT_FEATURES + 1].unbind(1)
        corrected = share + self.mend[0] * few + self.mend[1] * alone
        blur = self.blur.exp()
        noise = 1 / (4 * worth + 2) + blur[0] + blur[1] * few.square() + blur[2] * alone.square()
        doubt = self.doubt.exp()[(worth == 0).long()]
        w = (worth > 0) * doubt / (doubt + noise)
        return w * corrected + (1 - w) * guess, (1 - w) * doubt + 1 / (4 * queries + 2)

    def interval(self, adapted: AdaptedLearner) -> tuple[float, float, float]:
        """Expected accuracy on a test of TEST_IMAGES a class, and its 90% interval (low, high)."""
        x = task_evidence(adapted).to(self.margin)[None]
        queries = x.new_tensor([TEST_IMAGES * adapted.support.way])
        mean, variance = self(x, self.prior_guess(x), queries)
        least = to_angle(0.5 / queries)  # half an image: nothing is certain
        mean = mean.clamp(least, torch.pi / 2 - least)
        reach = DEVIATIONS * self.margin * variance.sqrt()
        angles = torch.cat([mean, mean - reach, mean + reach]).clamp(0, torch.pi / 2)
        expected, low, high = angles.sin().square().tolist()
        return expected, low, high


def to_angle(share: Tensor) -> Tensor:
    """φ(p) = arcsin √p.

    >>> to_angle(torch.tensor([0.0, 0.5, 1.0])) / torch.pi
    tensor([0.0000, 0.2500, 0.5000])
    """
    return share.clamp(0, 1).sqrt().asin()


def angle_of_share(hits: Tensor, total: Tensor) -> Tensor:
    """Anscombe's estimate of the angle of a share of `hits` among `total` images."""
    return to_angle((hits + 0.375) / (total + 0.75))


def task_evidence(adapted: AdaptedLearner) -> Tensor:
    """Evidence on a task's accuracy [7].

    φ(r), n, few; alone, φ(held-out confidence), φ(chance), 1 if nothing was held out.
    """
    support = adapted.support
    p = adapted.held_out.to(support.z).exp()
    several = support.counts > 1
    alone = (~several).to(p).mean()
    chance = to_angle(p.new_tensor(1 / support.way))
    if not several.any():
        return torch.stack([*p.new_zeros(3), alone, p.new_zeros(()), chance, p.new_ones(())])
    counts = support.counts[several]
    worth = len(counts) ** 2 / (1 / counts).sum()
    hits = class_averages(adapted, (p.argmax(1) == support.labels).to(p))[several].mean()
    sure = class_averages(adapted, p.max(1).values)[several].mean()
    few = (counts / (counts - 1)).log().mean()
    share = angle_of_share(hits * worth, worth)
    return torch.stack([share, worth, few, alone, to_angle(sure), chance, p.new_zeros(())])


def class_averages(adapted: AdaptedLearner, values: Tensor) -> Tensor:
    """Class means [C] of a value of each support image [N]."""
    support = adapted.support
    return values.new_zeros(support.way).index_add(0, support.labels, values) / support.counts
