"""What meta-training does with gradients: Adam, clipped, with a rate over the run and for each parameter, and the
running average of the parameters."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from anyshot.core.settings import TrainSettings
from anyshot.methods import Method
from anyshot.models.network import BODY_PREFIXES
from anyshot.training.ema import update_ema


class Optimizer:
    """Adam on a method's parameters; ``kept`` is the method to validate and to keep: itself, or its running average."""

    def __init__(self, method: Method, settings: TrainSettings) -> None:
        self.method, self.settings = method, settings
        self.kept = copy.deepcopy(method) if settings.average else method
        factors = method.learning_rate_multipliers()
        self.adam = torch.optim.Adam(
            [
                {
                    "params": [p],
                    "factor": factors.get(name, 1.0)
                    * (settings.body_rate if name.startswith(BODY_PREFIXES) else 1),
                }
                for name, p in method.named_parameters()
            ]  # a group for each parameter: each has its rate
        )

    def step(self, gradients: list[Tensor], iteration: int) -> None:
        """One step; ``iteration`` are finished."""
        s = self.settings
        for group in self.adam.param_groups:
            group["lr"] = s.rate * learning_rate_factor(s, iteration) * group["factor"]
        for parameter, gradient in zip(self.method.parameters(), gradients, strict=True):
            parameter.grad = gradient.clamp_(-s.clip, s.clip)
        self.adam.step()
        if self.kept is not self.method:
            update_ema(self.kept.parameters(), self.method.parameters(), s.average, iteration)

    def state_tensors(self) -> dict[str, Tensor]:
        """Parameters, moments and averages by name."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        for i, values in self.adam.state_dict()["state"].items():
            tensors |= {f"adam.{i}.{key}": value for key, value in values.items()}
        if self.kept is not self.method:
            tensors |= {f"average.{name}": value for name, value in self.kept.state_dict().items()}
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """The reverse of :meth:`tensors`."""
        parts: dict[str, dict[str, Tensor]] = {"method": {}, "adam": {}, "average": {}}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            parts[part][name] = value
        self.method.load_state_dict(parts["method"])
        if self.kept is not self.method:
            self.kept.load_state_dict(parts["average"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in parts["adam"].items():
            i, _, name = key.partition(".")
            moments.setdefault(int(i), {})[name] = value
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})


def learning_rate_factor(settings: TrainSettings, iteration: int) -> float:
    """The rate as a share of the settings': rising in equal steps at first, then constant or half a cosine.

    >>> [round(rate_at(TrainSettings(iterations=6, rising=2, decay="cosine"), i), 2) for i in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]
    """
    rising, falling = settings.rising, settings.iterations - settings.rising
    if iteration < rising:
        return (iteration + 1) / rising
    return (
        0.5 + 0.5 * math.cos(math.pi * (iteration - rising) / falling)
        if settings.decay == "cosine"
        else 1.0
    )
