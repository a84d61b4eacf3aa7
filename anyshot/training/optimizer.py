"""Adam for meta-training: clipped gradients, a schedule, and a learning rate for each parameter."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyshot.core.settings import TrainSettings
from anyshot.methods import Method
from anyshot.models.network import BODY_PREFIXES


class Optimizer:
    """Adam on the parameters of a method, one parameter group for each parameter."""

    def __init__(self, method: Method, settings: TrainSettings) -> None:
        self.method = method
        self.settings = settings
        multipliers = method.learning_rate_multipliers()
        groups = []
        for name, parameter in method.named_parameters():
            body_rate = settings.body_rate if name.startswith(BODY_PREFIXES) else 1
            groups.append({"params": [parameter], "factor": multipliers.get(name, 1.0) * body_rate})
        self.adam = torch.optim.Adam(groups)

    def step(self, gradients: list[Tensor], iteration: int) -> None:
        """One update; ``iteration`` iterations are finished. The gradients are clipped in place."""
        s = self.settings
        for group in self.adam.param_groups:
            group["lr"] = s.rate * learning_rate_factor(s, iteration) * group["factor"]
        for parameter, gradient in zip(self.method.parameters(), gradients, strict=True):
            parameter.grad = gradient.clamp_(-s.clip, s.clip)
        self.adam.step()

    def state_tensors(self) -> dict[str, Tensor]:
        """Parameters and moments by name."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        for i, values in self.adam.state_dict()["state"].items():
            tensors |= {f"adam.{i}.{key}": value for key, value in values.items()}
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what :meth:`state_tensors` returned."""
        parameters: dict[str, Tensor] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            if part == "method":
                parameters[name] = value
            else:
                i, _, moment = name.partition(".")
                moments.setdefault(int(i), {})[moment] = value
        self.method.load_state_dict(parameters)
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})


def learning_rate_factor(settings: TrainSettings, iteration: int) -> float:
    """The learning rate as a share of ``rate``: constant, or half a cosine from 1 to 0.

    >>> schedule = TrainSettings(iterations=4, decay="cosine")
    >>> [round(learning_rate_factor(schedule, i), 2) for i in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    if settings.decay == "none":
        return 1.0
    return 0.5 + 0.5 * math.cos(math.pi * iteration / settings.iterations)
