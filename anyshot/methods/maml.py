"""MAML: learn the initial parameters; the inner learning rate is one fixed number."""

from __future__ import annotations

from anyshot.methods.gradient_method import GradientMethod, constant_rates
from anyshot.models.network import Parameters


class MAML(GradientMethod):
    """Model-agnostic meta-learning (Finn, Abbeel and Levine, ICML 2017).

    https://arxiv.org/abs/1703.03400

        θ_k = θ_{k−1} − α ∇ mean CE(θ_{k−1}),    k = 1..K

    Every task starts at the same learned θ and takes K gradient steps on its support set. Training
    minimises the query loss at θ_K, with gradients that flow through the steps (``order=2``).

    The head starts at zero and is not learned, so any number of classes will do. This is also
    UNICORN-MAML (Ye and Chao, ICLR 2022, https://arxiv.org/abs/2106.16245), which learns one vector
    w as the initial head of every class: w adds ⟨w, f⟩ to all logits alike, and softmax cancels it.

    The inner learning rate α is fixed: 0.5 (CIFAR-FS, multi) or 0.1 (miniImageNet).
    """

    alpha = 0.5

    def rates(self) -> Parameters:
        return constant_rates(self)
