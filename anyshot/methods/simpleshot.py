"""SimpleShot: nearest class mean of centred, normalised features."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.methods.base import Objective
from anyshot.methods.embedding_method import EmbeddingMethod
from anyshot.methods.prototype_head import prototypes
from anyshot.models.network import Body


class SimpleShot(EmbeddingMethod):
    """SimpleShot with CL2N features (Wang, Chao, Weinberger and van der Maaten, 2019).

    https://arxiv.org/abs/1911.04623

        x̂ = (f(x) − c) / ‖f(x) − c‖,    logits_c(x) = −‖x̂ − p̂_c‖²,    p̂_c = mean of x̂ over class c

    The body comes from pre-training and stays fixed. Training only estimates the centre c, the mean
    feature of the training classes: it minimises ½ E ‖c − f(x)‖².
    """

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        self.centre = nn.Parameter(torch.zeros(body.width))

    def normalise(self, features: Tensor) -> Tensor:
        """x̂ [N, width] of features [N, width]."""
        return F.normalize(features - self.centre)

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        p = prototypes(self.normalise(features), labels, way)
        return lambda query: -((self.normalise(query)[:, None] - p) ** 2).sum(2)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support = self.to_input(task.support)
        with torch.no_grad():
            classified = super().objective(task, noise)
            mean = self.embed(support).mean(0)  # without dropout, as in tests
        return Objective(0.5 * ((self.centre - mean) ** 2).sum(), 0.0, classified.accuracy)
