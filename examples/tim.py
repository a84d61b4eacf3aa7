"""A transductive baseline: prototypes that use the whole query set.

anyshot train runs/tim --preset cifar-fs-5shot --method examples/tim.py:TIM --channels 32 \\
    --from cifar-fs --iterations 1 --rate 0 --validate-every 0 --validation-tasks 1
anyshot test runs/tim --trust-code
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from anyshot import EmbeddingMethod, SettingsError, option
from anyshot.methods.prototype_head import prototypes


class TIM(EmbeddingMethod):
    """Transductive information maximisation, TIM-ADM (Boudiaf et al., NeurIPS 2020).

    https://arxiv.org/abs/2008.11297

        min_w  λ CE(support) − H(mean of p over query images) + α mean of H(p) over query images,
        p_c(x) ∝ exp(−½ τ ‖x̂ − w_c‖²),    x̂ = f(x) / ‖f(x)‖

    w starts at the class means. Query labels q and prototypes w are updated in turn, in closed
    form. The query set is assumed to have as many images of each class, as the benchmarks do.
    """

    @dataclass(frozen=True)
    class Options(EmbeddingMethod.Options):
        temperature: float = option(15.0, "Sharpness of the probabilities, τ.", above=0)
        support_weight: float = option(0.1, "Weight of the support images, λ.", above=0)
        certainty: float = option(0.1, "Weight of the entropy of single query images, α.", least=0)
        updates: int = option(150, "Updates of labels and prototypes.", least=1)

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        if not settings.transductive:
            raise SettingsError("TIM uses the whole query set; use --transductive.")

    def probabilities(self, x, w):
        """p [n, way] of unit features x at the prototypes w."""
        return (-0.5 * self.options.temperature * torch.cdist(x, w).square()).softmax(1)

    def fit(self, features, labels, way):
        support, y = F.normalize(features), F.one_hot(labels, way).to(features)
        start = prototypes(support, labels, way)
        alpha = self.options.certainty
        weight = self.options.support_weight / (1 + alpha)

        def score(query):
            query, w = F.normalize(query), start
            ratio = len(support) / len(query)
            for _ in range(self.options.updates):
                p, s = self.probabilities(query, w), self.probabilities(support, w)
                q = p ** (1 + alpha)
                q = q / q.sum(0).sqrt()
                q = q / q.sum(1, keepdim=True)
                # Σ (label · x̂ + p (w − x̂)), which is 0 where the labels agree with p
                pull = weight * (y - s).t() @ support + ratio * (q - p).t() @ query
                mass = weight * s.sum(0) + ratio * p.sum(0)
                w = (pull + mass[:, None] * w) / (weight * y.sum(0) + ratio * q.sum(0))[:, None]
            return self.probabilities(query, w).clamp_min(1e-30).log()

        return score
