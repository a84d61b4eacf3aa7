"""Meta-SGD (Li et al., 2017): MAML with a learned step size for each parameter element, of any sign."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.core.settings import MethodSettings
from anyshot.methods.balancing import Phi
from anyshot.methods.base import GradientMethod, constant_rates
from anyshot.methods.prototype_head import PrototypeHead
from anyshot.models.network import Body, Norm, Parameters


class MetaSGD(GradientMethod):
    """α has the shape of the body's parameters; the head's is one vector shared by all classes and one number for its
    bias, so that any number of classes will do."""

    alpha = 0.01

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        shapes = {name: value.shape for name, value in self.theta.items()}
        shapes.update(head_weight=torch.Size([1, body.width]), head_bias=torch.Size([1]))
        start = constant_rates(self)
        self.rate = nn.ParameterDict(
            {name: torch.full(shapes[name], start[name].item()) for name in shapes}
        )
        self.means_head = None if settings.head == "zero" else PrototypeHead(settings)
        self.tau = (
            None
            if settings.omega_prior is None
            else nn.Parameter(torch.tensor(settings.omega_prior))
        )

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        if self.means_head is None:
            return super().head(theta, norm, images, labels, way)
        return self.means_head(self.embed(images, theta, norm), labels, way)

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """ω ∝ exp(ω̃) N_c^−τ: the prior of ω̃ has its mean at −τ log N_c, of which φ holds the rest."""
        return (
            phi
            if self.tau is None
            else {**phi, "omega": phi.get("omega", 0.0) - self.tau * shots.log()}
        )

    def rates(self) -> Parameters:
        return dict(self.rate)

    def learning_rate_multipliers(self) -> dict[str, float]:
        """Adam moves an element by about its rate whatever the element's size, which suits α = 0.01; other starts
        learn in proportion, at most ten times as fast. Single numbers that all tasks share learn ten times as fast."""
        start, shared = (
            constant_rates(self),
            ("tau", "means_head.log_scale", "means_head.log_kappa"),
        )
        factors = {
            f"rate.{name}": min(abs(start[name].item()) / 0.01, 10.0) or 1.0 for name in self.rate
        }
        return factors | dict.fromkeys(shared, 10.0)
