"""R2D2: ridge regression as a differentiable head."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.builtin_options import R2D2Options
from anyshot.core.remedy import OVERSAMPLING, WEIGHTING
from anyshot.core.settings import MethodSettings
from anyshot.methods.embedding_method import EmbeddingMethod
from anyshot.models.network import Body


class R2D2(EmbeddingMethod):
    """Ridge regression differentiable discriminator (Bertinetto et al., ICLR 2019).

    https://arxiv.org/abs/1805.08136

        W = Xᵀ (X Xᵀ + λ I)⁻¹ Y,    logits(x) = a · x W + b

    X are the support features with a constant 1 appended, Y one-hot labels. The regularisation λ,
    the scale a and the offset b are learned with the body, through the closed form. With weights d
    of the images, a remedy against uneven classes, λ I becomes λ diag(1/d).
    """

    Options: ClassVar[type] = R2D2Options
    options: R2D2Options
    remedies = (*OVERSAMPLING, *WEIGHTING)

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        self.log_lambda = nn.Parameter(torch.tensor(self.options.ridge).log())
        self.scale = nn.Parameter(torch.ones(()))
        self.offset = nn.Parameter(torch.zeros(()))

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        x = F.pad(features, (0, 1), value=1.0)
        y = F.one_hot(labels, way).to(x)
        factors = self.remedy.class_factors(y.sum(0))
        ridge = torch.ones_like(x[:, 0]) if factors is None else 1 / factors[labels]
        kernel = x @ x.t() + self.log_lambda.exp() * ridge.diag()
        weight = x.t() @ torch.linalg.solve(kernel, y)
        return lambda query: self.scale * (F.pad(query, (0, 1), value=1.0) @ weight) + self.offset
