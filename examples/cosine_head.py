"""MAML with a cosine head: a head need not be linear, and may have parameters of its own.

anyshot train runs/cosine --method examples/cosine_head.py:CosineMAML --initial-scale 10
anyshot test runs/cosine --trust-code
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from anyshot import MAML, option
from anyshot.methods.prototype_head import prototypes


class CosineMAML(MAML):
    """score_c(x) = s · cos(f(x), w_c); the inner loop adapts the body, w and the scale s.

    w starts at the class means, s at a learned number.
    """

    @dataclass(frozen=True)
    class Options(MAML.Options):
        initial_scale: float = option(10.0, "Initial scale of the cosines (learned).", above=0)

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        self.log_scale = nn.Parameter(torch.tensor(self.options.initial_scale).log())

    def head(self, theta, norm, images, labels, way):
        """The initial parameters of the head: any names that start with "head_"."""
        weight = prototypes(self.embed(images, theta, norm), labels, way)
        return {"head_weight": weight, "head_scale": self.log_scale.exp()}

    def class_scores(self, theta, features):
        """Class scores [n, way] of features [n, width]."""
        cosines = F.linear(F.normalize(features), F.normalize(theta["head_weight"]))
        return theta["head_scale"] * cosines

    def rates(self):
        """A learning rate for each parameter of the head, too."""
        rates = super().rates()
        return {**rates, "head_scale": rates["head_weight"]}
