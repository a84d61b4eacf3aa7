"""Meta-SGD: MAML with a learned learning rate for each parameter element."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from anyshot.core.builtin_options import MetaSGDOptions
from anyshot.core.settings import MethodSettings
from anyshot.methods.balancing import Phi, image_weights
from anyshot.methods.gradient_method import GradientMethod, constant_rates
from anyshot.methods.prototype_head import PrototypeHead
from anyshot.models.network import Body, Norm, Parameters


class MetaSGD(GradientMethod):
    """Meta-SGD (Li, Zhou, Chen and Li, 2017).

    https://arxiv.org/abs/1707.09835

        θ_k = θ_{k−1} − α ∘ ∇ mean CE(θ_{k−1}),    α learned, one number per element, any sign

    The inner learning rates are meta-parameters like θ, so training learns the direction and the
    length of each step. With ``class_mean`` the loss is averaged within each class first; with
    ``divide_by_shots`` each class's gradient is divided by its number of images ("1/N").

    α has the shape of the body's parameters. The head has one vector that all classes share and one
    number for the bias, so that a trained method works with any number of classes.
    """

    Options: ClassVar[type] = MetaSGDOptions
    options: MetaSGDOptions
    alpha = 0.01

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        adapted = self.theta.items() if settings.adapt_body else ()
        shapes = {name: value.shape for name, value in adapted}
        shapes.update(head_weight=torch.Size([1, body.width]), head_bias=torch.Size([1]))
        start = constant_rates(self)
        self.rate = nn.ParameterDict(
            {name: torch.full(shapes[name], start[name].item()) for name in shapes}
        )
        has_zero_head = self.options.head == "zero"
        self.means_head = (
            None
            if has_zero_head
            else PrototypeHead(self.options, [width for _, width in body.parts])
        )
        tau = self.options.omega_prior
        self.tau = None if tau is None else nn.Parameter(torch.tensor(tau))

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        if self.means_head is None:
            return super().head(theta, norm, images, labels, way)
        return self.means_head(self.embed(images, theta, norm), labels, way)

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """Class weights ω ∝ exp(ω̃) N_c^−τ: the class-size prior adds −τ log N_c to ω̃."""
        if self.tau is None:
            return phi
        return {**phi, "omega": phi.get("omega", 0.0) - self.tau * shots.log()}

    def image_weights(self, labels: Tensor, way: int, phi: Phi) -> Tensor:
        o = self.options
        return image_weights(
            labels, way, phi, self.reference_tensor, o.class_mean, o.divide_by_shots
        )

    def rates(self) -> Parameters:
        return dict(self.rate)

    def learning_rate_multipliers(self) -> dict[str, float]:
        """Learning rates in proportion to the initial α, at most ten times the optimiser's.

        Adam moves an element by about its learning rate whatever the element's size, which suits
        α = 0.01. Single numbers that all tasks share learn ten times as fast.
        """
        start = constant_rates(self)
        shared = ("tau", "means_head.log_scale", "means_head.log_kappa")
        factors = {
            f"rate.{name}": min(abs(start[name].item()) / 0.01, 10.0) or 1.0 for name in self.rate
        }
        return factors | dict.fromkeys(shared, 10.0)
