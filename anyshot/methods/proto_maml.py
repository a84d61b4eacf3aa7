"""Proto-MAML (Triantafillou et al., 2020): MAML whose head starts as a prototypical network's."""

from __future__ import annotations

from torch import Tensor

from anyshot.methods.maml import MAML
from anyshot.methods.prototype_head import prototypes
from anyshot.models.network import Norm, Parameters


class ProtoMAML(MAML):
    """W_c = 2 p_c, b_c = −‖p_c‖², p_c the class mean of the support features at θ; meta-gradients flow through it."""

    alpha = 0.0005

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        p = prototypes(self.embed(images, theta, norm), labels, way)
        return {"head_weight": 2 * p, "head_bias": -(p**2).sum(1)}
