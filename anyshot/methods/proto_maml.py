"""Proto-MAML: MAML whose head starts as a prototypical network's."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from anyshot.core.builtin_options import StatisticsOptions
from anyshot.methods.gradient_method import GradientMethod
from anyshot.methods.prototype_head import prototypes
from anyshot.models.network import Norm, Parameters


class ProtoMAML(GradientMethod):
    """Proto-MAML (Triantafillou et al., "Meta-Dataset", ICLR 2020).

    https://arxiv.org/abs/1903.03096

        W_c = 2 p_c,    b_c = −‖p_c‖²,    p_c = mean of the support features of class c at θ

    The initial head classifies by the distance to the class means. The inner loop then adapts head
    and body as MAML does, and the meta-gradient flows through the initial head, too.

    The inner learning rate is 0.0005 (any-shot) or 0.01 (multi).
    """

    Options: ClassVar[type] = StatisticsOptions
    alpha = 0.0005

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        p = prototypes(self.embed(images, theta, norm), labels, way)
        return {"head_weight": 2 * p, "head_bias": -(p**2).sum(1)}
