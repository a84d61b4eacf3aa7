"""Three methods in a user's own file, each as short as its idea. Train one by naming this file:

anyshot train runs/anil --method examples/own_method.py:ANIL
anyshot train runs/steps --method examples/own_method.py:StepSizes
anyshot train runs/learned --method examples/own_method.py:LearnedOptimiser --hidden 16
anyshot test runs/anil runs/steps runs/learned --trust-code
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from anyshot import HEAD_PARAMETERS, MAML, option


class ANIL(MAML):
    """Almost no inner loop (Raghu et al., ICLR 2020): the inner loop adapts the head alone."""

    def rates(self):
        return {
            name: rate if name in HEAD_PARAMETERS else 0 * rate
            for name, rate in super().rates().items()
        }


class StepSizes(MAML):
    """MAML with a learned learning rate for each step and layer, as in MAML++ (Antoniou et al.,
    ICLR 2019). Steps beyond those of meta-training use the rate of the last one."""

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        start = super().rates()
        rates = [start[names[0]].repeat(settings.steps) for names in body.layer_parameters.values()]
        self.rate = nn.Parameter(torch.stack(rates))  # [layers, steps]

    def adapted_parameters(self, inner, order):
        theta = inner.theta
        for k in range(inner.steps):
            g = self.gradient(inner, theta, order, k)
            rates = self.rate[:, min(k, self.rate.shape[1] - 1)]
            layers = zip(rates, self.body.layer_parameters.values(), strict=True)
            theta = {name: theta[name] - rate * g[name] for rate, names in layers for name in names}
        return theta


class LearnedOptimiser(MAML):
    """A small network f computes each element's step: θ ← θ − α (g + r · f(g/r, m/r)).

    Its inputs are the gradient g and the running mean m of the gradients before, both divided by
    the root mean square r of g. At the start f is 0, and this is MAML.
    """

    @dataclass(frozen=True)
    class Options(MAML.Options):
        hidden: int = option(8, "Hidden units of the network that computes the steps.", least=1)
        memory: float = option(0.5, "Decay of the running mean of the gradients.", least=0, most=1)

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        self.first = nn.Parameter(torch.randn(2, self.options.hidden, generator=generator))
        self.second = nn.Parameter(torch.zeros(self.options.hidden))

    def adapted_parameters(self, inner, order):
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
        """g + r · f(g/r, m/r), elementwise."""
        r = (g.square().mean() + 1e-12).sqrt()
        return g + r * (torch.stack([g, m], -1) / r @ self.first).tanh() @ self.second
