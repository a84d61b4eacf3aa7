"""The expected accuracy of a task before there is a test set.

Shares are mapped to angles, φ(p) = arcsin √p. The angle of a share of n images has about the
variance 1 / (4n + 2) for every share. It is finite and not zero even if all images were correct
(Anscombe, 1948).

Every support image was predicted by heads that were fitted without it. The share r of correct
predictions (the mean over classes of two or more images) has the precision of n = k² / Σ 1/n_c
images, where k is the number of these classes. A single one of them says little: it was compared
with classes of one image only, and a classifier that always answers with it would have r = 1. There
are two readings then, without its results (as if no image had been held out) and with them; the
model's answer has room for both.

    e = φ(r) + c₁ penalty + c₂ singles
    variance of e:  v = 1 / (4n + 2) + b₀ + b₁ penalty² + b₂ singles²

penalty is the mean of log(n_c / (n_c − 1)): heads that are fitted without an image are worse than
heads with it. singles is the share of classes with a single image. None of their images was held
out, and their accuracy is usually lower. The prior guess g is linear in singles, in the held-out
confidence and the held-out probability of the truth, in the accuracy of chance and in how far the
classes are apart (`class_separation`). Its variance is τ², which has a second value for tasks where
no image counts as held out. Both estimates are combined by inverse variance:

    w = τ² / (τ² + v)  (0 if no image counts),      mean = w e + (1 − w) g
    variance = (1 − w) τ²

A test of M images adds 1 / (4M + 2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.learner import AdaptedLearner
from anyshot.classifier.heads.mixture import compared_classes
from anyshot.classifier.heads.support_set import SupportSet, squared_distances

HELD_OUT_FEATURES = 3  # the first numbers of task_evidence: results on held-out images
PRIOR_FEATURES = 7  # the other numbers: inputs of the prior guess
LEVEL = 0.9  # of the interval
DEVIATIONS = 1.645  # standard deviations on each side for that level
USUAL_SPREAD = 0.7  # of one image within its class, before any is seen
LEAST_DISTANCE = 1e-3  # smaller distances between classes are clipped
TEST_IMAGES = 15  # images of each class in the test that the interval is about


class AccuracyModel(nn.Module):
    """Meta-learned: prior guess, corrections, variances, and a margin for new data sets."""

    margin: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.guess = nn.Linear(PRIOR_FEATURES, 1)
        nn.init.zeros_(self.guess.weight)
        nn.init.zeros_(self.guess.bias)
        # The attributes are the names of tensors in weights files.
        self.mend = nn.Parameter(torch.zeros(2))  # corrections c₁, c₂
        self.blur = nn.Parameter(torch.full((3,), -3.0))  # logarithms of b₀, b₁, b₂
        self.doubt = nn.Parameter(torch.full((2,), -2.0))  # log τ²: with held-out images, without
        # factor of the interval's width, calibrated on data sets that were left out
        self.register_buffer("margin", torch.tensor(1.0))

    def prior_guess(self, x: Tensor) -> Tensor:
        """The guess g [T] for tasks with evidence [T, 10]."""
        return self.guess(x[:, HELD_OUT_FEATURES:])[:, 0]

    def forward(self, x: Tensor, guess: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance [T] of the angle of the accuracy on `queries` [T] test images."""
        share, images, penalty, singles = x[:, : HELD_OUT_FEATURES + 1].unbind(1)
        corrected = share + self.mend[0] * penalty + self.mend[1] * singles
        b = self.blur.exp()
        variance = 1 / (4 * images + 2) + b[0] + b[1] * penalty.square() + b[2] * singles.square()
        prior_variance = self.doubt.exp()[(images == 0).long()]
        w = (images > 0) * prior_variance / (prior_variance + variance)
        mean = w * corrected + (1 - w) * guess
        return mean, (1 - w) * prior_variance + 1 / (4 * queries + 2)

    def interval(self, adapted: AdaptedLearner, lone: bool = False) -> tuple[float, float, float]:
        """Expected accuracy on a test of TEST_IMAGES a class, and its 90% interval (low, high).

        `lone`: results of a single class of several images count, too.
        """
        x = task_evidence(adapted, lone).to(self.margin)[None]
        queries = x.new_tensor([TEST_IMAGES * adapted.support.way])
        mean, variance = self(x, self.prior_guess(x), queries)
        least = to_angle(0.5 / queries)  # half an image, so that the mean is never 0 or 1
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


def task_evidence(adapted: AdaptedLearner, lone: bool = False) -> Tensor:
    """Evidence on a task's accuracy [10].

    φ(r), n, penalty; singles, φ(held-out confidence), φ(chance), 1 if no held-out image counts,
    φ(held-out probability of the truth), and the two numbers of `class_separation`.
    """
    support = adapted.support
    p = adapted.held_out.to(support.z).exp()
    several = support.counts > 1 if lone else compared_classes(support.counts)
    singles = (~several).to(p).mean()
    chance = to_angle(p.new_tensor(1 / support.way))
    zero, one = p.new_zeros(()), p.new_ones(())
    if not several.any():
        return torch.stack([zero, zero, zero, singles, zero, chance, one, zero, zero, zero])
    counts = support.counts[several]
    images = len(counts) ** 2 / (1 / counts).sum()
    truth = p.gather(1, support.labels[:, None])[:, 0]
    hits, confidence, truth = (
        class_averages(adapted, values)[several].mean()
        for values in ((p.argmax(1) == support.labels).to(p), p.max(1).values, truth)
    )
    penalty = (counts / (counts - 1)).log().mean()
    share = angle_of_share(hits * images, images)
    of_prior = (singles, to_angle(confidence), chance, zero, to_angle(truth))
    return torch.stack([share, images, penalty, *of_prior, *class_separation(support)])


def class_separation(support: SupportSet) -> tuple[Tensor, Tensor]:
    """Mean log distance of classes to the nearest other, and the share that cannot be separated.

    Distances are squared, relative to the variance within classes, and without what the sampling
    of the class means adds to them: ‖m_a − m_b‖² − s (1/n_a + 1/n_b).
    """
    counts, way = support.counts, support.way
    spread, _ = support.class_geometry()
    freedom = len(support.labels) - way
    within = (spread.sum() + USUAL_SPREAD) / (freedom + 1)
    means = support.class_means()
    sampling = within / counts
    apart = squared_distances(means, means) - sampling[:, None] - sampling
    nearest = apart.fill_diagonal_(torch.inf).min(1).values / within
    return nearest.clamp_min(LEAST_DISTANCE).log().mean(), (nearest < 0.02).to(nearest).mean()


def class_averages(adapted: AdaptedLearner, values: Tensor) -> Tensor:
    """Class means [C] of a value of each support image [N]."""
    support = adapted.support
    return values.new_zeros(support.way).index_add(0, support.labels, values) / support.counts
