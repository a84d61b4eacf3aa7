"""Three methods that anyshot does not have, each as short as its idea. Train one by naming this file:

anyshot train runs/anil --method examples/own_method.py:ANIL
anyshot train runs/steps --method examples/own_method.py:StepSizes
anyshot train runs/learned --method examples/own_method.py:LearnedOptimiser --hidden 16
anyshot test runs/anil runs/steps runs/learned
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from anyshot.core.options import option
from anyshot.methods import MAML
from anyshot.models.network import HEAD_PARAMETERS


class ANIL(MAML):
    """Almost no inner loop (Raghu et al., 2020): only the head moves; the body is learned for it."""

    def rates(self):
        return {
            name: rate if name in HEAD_PARAMETERS else 0 * rate
            for name, rate in super().rates().items()
        }


class StepSizes(MAML):
    """MAML with a learned step size for each step and layer, as in MAML++ (Antoniou et al., 2019). Steps beyond those
    of meta-training have the last one's."""

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        start = super().rates()
        rates = [start[names[0]].repeat(settings.steps) for names in body.layer_parameters.values()]
        self.rate = nn.Parameter(torch.stack(rates))  # [layers, steps]

    def learned(self, inner, order):
        theta = inner.theta
        for k in range(inner.steps):
            g = self.gradient(inner, theta, order, k)
            rates = self.rate[:, min(k, self.rate.shape[1] - 1)]
            layers = zip(rates, self.body.layer_parameters.values(), strict=True)
            theta = {name: theta[name] - rate * g[name] for rate, names in layers for name in names}
        return theta


class LearnedOptimiser(MAML):
    """A small network makes each element's step of its gradient g and of m, the mean of those before, both in units of
    their tensor's own size r: θ ← θ − α (g + r · f(g/r, m/r)). At the start f is 0, and this is MAML."""

    @dataclass(frozen=True)
    class Options:
        hidden: int = option(8, "Hidden units of the network that makes the steps.", least=1)
        memory: float = option(
            0.5, "How much of the mean gradient is kept at each step.", least=0, most=1
        )

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        self.first = nn.Parameter(torch.randn(2, self.options.hidden, generator=generator))
        self.second = nn.Parameter(torch.zeros(self.options.hidden))

    def learned(self, inner, order):
        theta, memory = inner.theta, self.options.memory
        m = {name: torch.zeros_like(value) for name, value in theta.items()}
        for k in range(inner.steps):
            g = self.gradient(inner, theta, order, k)
            m = {name: memory * m[name] + (1 - memory) * g[name] for name in g}
            theta = {
                name: theta[name] - inner.rates[name] * self.step(g[name], m[name])
                for name in theta
            }
        return theta

    def step(self, g, m):
        """g + r · f(g/r, m/r)"""
        r = (g.square().mean() + 1e-12).sqrt()
        return g + r * (torch.stack([g, m], -1) / r @ self.first).tanh() @ self.second
