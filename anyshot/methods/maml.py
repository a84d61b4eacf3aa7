"""MAML: learn the initial parameters; the inner learning rate is one fixed number."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from anyshot.core.builtin_options import MAMLOptions
from anyshot.core.errors import DataError, SettingsError
from anyshot.core.settings import MethodSettings
from anyshot.methods.gradient_method import GradientMethod
from anyshot.models.network import Body, Norm, Parameters, truncated_normal


class MAML(GradientMethod):
    """Model-agnostic meta-learning (Finn, Abbeel and Levine, ICML 2017).

    https://arxiv.org/abs/1703.03400

        θ_k = θ_{k−1} − α ∇ mean CE(θ_{k−1}),    k = 1..K

    Every task starts at the same learned θ and takes K gradient steps on its support set. Training
    minimises the query loss at θ_K, with gradients that flow through the steps (``order=2``).

    The head starts at zero and is not learned, so any number of classes will do. This is also
    UNICORN-MAML (Ye and Chao, ICLR 2022, https://arxiv.org/abs/2106.16245), which learns one vector
    w as the initial head of every class: w adds ⟨w, f⟩ to all logits alike, and softmax cancels it.

    With ``learned_head`` the initial head of each class is learned, as in Finn's paper. The
    method then works only with the number of classes that it was trained with.

    The inner learning rate α is fixed: 0.5 (CIFAR-FS, multi) or 0.1 (miniImageNet).
    """

    Options: ClassVar[type] = MAMLOptions
    options: MAMLOptions
    alpha = 0.5

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        self.initial_head = None
        if self.options.learned_head:
            if self.way is None:
                raise SettingsError(
                    "A learned head needs the number of classes: create_method(settings, way=5)."
                )
            sigma = 0.02 if settings.start == "paper" else (2 / body.width) ** 0.5
            weight = truncated_normal((self.way, body.width), sigma, generator)
            self.initial_head = nn.ParameterDict(
                {"head_weight": weight, "head_bias": torch.zeros(self.way)}
            )

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        if self.initial_head is None:
            return super().head(theta, norm, images, labels, way)
        if way != self.way:
            raise DataError(
                f"This task has {way} classes, but the head was learned for {self.way}; train with "
                f"--way {way}, or with --no-learned-head for any number of classes."
            )
        return dict(self.initial_head)
