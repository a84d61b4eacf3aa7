"""Prototypical Networks: nearest class mean in a learned feature space, no inner loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from anyshot.core.settings import MethodSettings
from anyshot.methods.embedding_method import EmbeddingMethod
from anyshot.methods.prototype_head import prototypes
from anyshot.models.network import Body


class ProtoNet(EmbeddingMethod):
    """Prototypical Networks (Snell, Swersky and Zemel, NeurIPS 2017).

    https://arxiv.org/abs/1703.05175

        logits_c(x) = −‖f(x) − p_c‖²,    p_c = mean of f over the support images of class c

    The features f are the flattened output of the body. Nothing is adapted: a task only changes the
    class means.

    The body starts with He initialisation, because training hardly moves from the paper's σ = 0.02.
    """

    unused_settings = (*EmbeddingMethod.unused_settings, "start")

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(dataclasses.replace(settings, start="he"), body, generator)

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        p = prototypes(features, labels, way)
        return lambda query: -((query[:, None] - p) ** 2).sum(2)
