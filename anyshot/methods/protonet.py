"""Prototypical Networks (Snell et al., 2017): the nearest class mean in a learned feature space; no inner loop."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.methods.base import Method, Objective, Probabilities, accuracy
from anyshot.methods.prototype_head import prototypes
from anyshot.models.network import Body


class ProtoNet(Method):
    """logits = −‖f(x) − p_c‖², f the flattened body, normalised over the set in hand (or as the support set)."""

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(
            dataclasses.replace(settings, start="he"), body, generator
        )  # σ = 0.02 hardly moves

    def scores(self, p: Tensor, support: Tensor, query: Tensor) -> Tensor:
        """Class scores [M, way] of query images, given the class means; the support's statistics may be wanted."""
        reference = None if self.settings.transductive else support
        return -((self.embed(query, reference=reference)[:, None] - p) ** 2).sum(2)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        scores = self.scores(prototypes(self.embed(support), labels, task.way), support, query)
        return Objective(F.cross_entropy(scores, query_labels), 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        views = tuple(self.views(images))
        h = torch.cat([self.embed(view) for view in views])
        p = prototypes(h, labels.repeat(len(views)), int(labels.max()) + 1)
        return lambda queries, view: self.scores(p, views[view], queries).softmax(1)
