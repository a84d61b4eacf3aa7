"""Meta-SGD (Li et al., 2017): MAML with a learned step size for each parameter element, of any sign."""

from __future__ import annotations

import torch
from torch import nn

from anyshot.methods.base import GradientMethod, constant_rates
from anyshot.network import Body, Parameters
from anyshot.settings import MethodSettings


class MetaSGD(GradientMethod):
    """α has the shape of the body's parameters; the head's is one vector shared by all classes and one number for its
    bias, so that any number of classes will do."""

    alpha = 0.01

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        shapes = {name: value.shape for name, value in self.theta.items()}
        shapes.update(head_weight=torch.Size([1, body.width]), head_bias=torch.Size([1]))
        start = constant_rates(self)
        self.rate = nn.ParameterDict({name: torch.full(shapes[name], start[name].item()) for name in shapes})

    def rates(self) -> Parameters:
        return dict(self.rate)

    def rate_factors(self) -> dict[str, float]:
        """Adam moves an element by about its rate whatever the element's size, which suits α = 0.01; other starts
        learn in proportion, at most ten times as fast."""
        start = constant_rates(self)
        return {f"rate.{name}": min(abs(start[name].item()) / 0.01, 10.0) or 1.0 for name in self.rate}
