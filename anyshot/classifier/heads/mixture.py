"""The balanced mixture: how far each head is trusted for each class, from the task's own evidence.

    p(c | x) ∝ ω_c Σ_k a_kc p_k(c | x)^{t_kc}

One small network computes the trust a (a softmax over heads), the sharpness t and the weight ω of
each class. Its inputs are class sizes, the number of classes, how far classes spread and lie apart,
and how well each head predicted held-out support images. The trust also has a direct term: the
held-out log-probability of the class, times a learned factor that grows with the square root of the
number of held-out images. At the start this term is all there is, so the heads that did best on
held-out images are trusted most.

ω is for classes that are equally common; other class priors multiply it (`MixtureWeights.omega`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyshot.classifier.heads.support_set import SupportSet

HIDDEN = 24
PSEUDO_COUNT = 3.0  # weight of the task's mean in a class's mean, in images
MIN_LOG_PROBABILITY = -5.0  # lower log-probabilities are clipped to this
SIZES_AND_GEOMETRY = 7  # inputs that do not depend on the heads; they come first
START_EVIDENCE = 5.0  # initial factor of the held-out log-probability (over log C) in the trust
SMALLEST_TRUST = 1e-30  # smaller ones count as this; the logarithm of 0 has no gradient
USUAL_IMAGES = 10.0  # held-out images for which the factor is as it is learned
DEFAULT_TASK_LEVEL = -0.4  # assumed task mean if no two classes have two images


@dataclass(frozen=True)
class MixtureWeights:
    """For K heads and C classes: trust [K, C], sharpness [K, C], omega [C]."""

    trust: Tensor
    sharpness: Tensor
    omega: Tensor

    def __call__(self, heads: Tensor) -> Tensor:
        """Log-probabilities [m, C] of the heads' log-probabilities [K, m, C]."""
        trust = self.trust.clamp_min(SMALLEST_TRUST).log()
        terms = trust[:, None] + heads.clamp_min(-50) * self.sharpness[:, None]
        return (terms.logsumexp(0) + self.omega.log()).log_softmax(1)


class Mixture(nn.Module):
    """The network: 7 + 3 K numbers of a class → its trust, sharpness and weight."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = nn.Linear(SIZES_AND_GEOMETRY + 3 * heads, HIDDEN)
        self.out = nn.Linear(HIDDEN, 2 * heads + 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.log_evidence = nn.Parameter(torch.tensor(START_EVIDENCE).log())

    def forward(self, evidence: Tensor, counts: Tensor) -> MixtureWeights:
        """Weights for a task, from the evidence [C, 7 + 3 K] and the class sizes [C]."""
        out = self.out(self.hidden(evidence.to(self.out.weight)).tanh()).to(evidence)
        trust, sharpness, omega = out.split([self.heads, self.heads, 1], 1)
        of_task, of_class = evidence[:, SIZES_AND_GEOMETRY:].split(self.heads, 1)[:2]
        factor = self.log_evidence.exp() * (held_out_images(counts) / USUAL_IMAGES).sqrt()
        trust = trust + factor.to(evidence) * (of_task + of_class / 2)
        return MixtureWeights(
            trust.softmax(1).t(), sharpness.t().exp(), omega[:, 0].softmax(0) * len(evidence)
        )


def compared_classes(counts: Tensor) -> Tensor:
    """Whether the held-out results of each class [C] count, from the class sizes [C].

    A class of one image has none. Those of a single class say nothing: a head that always answers
    with this class would be perfect.

    >>> compared_classes(torch.tensor([4.0, 2.0, 1.0])), compared_classes(torch.tensor([50.0, 1.0]))
    (tensor([ True,  True, False]), tensor([False, False]))
    """
    several = counts > 1
    return several & (several.sum() > 1)


def held_out_images(counts: Tensor) -> Tensor:
    """Images that a mean over classes of held-out results is worth: k² / Σ 1/n_c, at least one.

    Only the k classes count whose results are compared.

    >>> held_out_images(torch.tensor([4.0, 4.0, 1.0]))
    tensor(8.)
    """
    several = counts[compared_classes(counts)]
    return (len(several) ** 2 / (1 / several).sum()).nan_to_num().clamp_min(1)


def class_evidence(support: SupportSet, held_out: Tensor) -> Tensor:
    """The network's inputs [C, 7 + 3 K], from held-out log-probabilities [K, N, C].

    Five numbers of sizes, two of geometry, and for each head: how well it does in the task, in the
    class relative to the task, and how often it raises a false alarm for the class.
    """
    counts, way = support.counts, support.way
    several = counts > 1
    log_size = counts.log()
    sizes = [
        log_size / 2 - 1,
        (log_size - log_size.mean()) / 1.5,
        (counts.sum().log() / 2 - 2).expand(way),
        counts.new_full((way,), math.log(way) / 2 - 1),
        (~several).to(counts).mean().expand(way),
    ]
    task_level, class_level = _held_out_levels(support, held_out)
    scores = [
        task_level.expand(-1, way).t() - DEFAULT_TASK_LEVEL,
        (class_level - task_level).t() * 2,
        _false_alarm_rate(support, held_out).t() - 0.5,
    ]
    return torch.cat([torch.stack(sizes, 1), _class_geometry_features(support), *scores], 1)


def _held_out_levels(support: SupportSet, held_out: Tensor) -> tuple[Tensor, Tensor]:
    """Mean held-out log-probability of the truth over log C: task [K, 1], classes [K, C].

    A class's mean is blended with PSEUDO_COUNT images at the task's mean. Classes without
    held-out results that count get the task's mean.
    """
    counts, labels, way = support.counts, support.labels, support.way
    several = compared_classes(counts)
    images = torch.arange(len(labels))
    truth = held_out[:, images, labels].clamp_min(MIN_LOG_PROBABILITY) / math.log(way)  # [K, N]
    summed = truth.new_zeros(len(truth), way).index_add(1, labels, truth)
    task_level = truth.new_full((len(truth), 1), DEFAULT_TASK_LEVEL)
    if several.any():
        task_level = (summed / counts)[:, several].mean(1, keepdim=True)
    held_out_count = torch.where(several, counts, 0.0)
    blended = torch.where(several, summed, 0.0) + PSEUDO_COUNT * task_level
    return task_level, blended / (held_out_count + PSEUDO_COUNT)


def _false_alarm_rate(support: SupportSet, held_out: Tensor) -> Tensor:
    """Probability [K, C] that images of other classes give a class, relative to an even share."""
    way = support.way
    p = held_out.exp()
    by_class = p.new_zeros(len(p), way, way).index_add(1, support.labels, p)
    by_class = by_class / support.counts[:, None]  # [K, true class, given class]
    others = by_class.sum(1) - by_class.diagonal(dim1=1, dim2=2)
    return others * way / max(way - 1, 1)


def _class_geometry_features(support: SupportSet) -> Tensor:
    """Spread of each class, blended with one image of the task's, and nearest mean, [C, 2]."""
    spread, nearest = support.class_geometry()
    blended = (spread + spread.sum() / support.counts.sum()) / (support.counts + 1)
    return torch.stack([blended - 0.7, nearest - 0.8], 1)
