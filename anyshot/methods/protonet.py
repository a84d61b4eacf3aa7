"""Prototypical Networks: nearest class mean in a learned feature space, no inner loop."""

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
    """Prototypical Networks (Snell, Swersky and Zemel, NeurIPS 2017).

    https://arxiv.org/abs/1703.05175

        logits_c(x) = −‖f(x) − p_c‖²,    p_c = mean of f over the support images of class c

    The features f are the flattened output of the body. Nothing is adapted: a task only changes the
    class means.

    The body starts with He initialisation, because training hardly moves from the paper's σ = 0.02.
    """

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(dataclasses.replace(settings, start="he"), body, generator)

    def class_scores(self, p: Tensor, support: Tensor, query: Tensor) -> Tensor:
        """Scores [M, way] of query images, given the class means p [way, width].

        The support images give the batch-norm statistics if the method is not transductive.
        """
        reference = None if self.settings.transductive else support
        return -((self.embed(query, reference=reference)[:, None] - p) ** 2).sum(2)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        p = prototypes(self.embed(support), labels, task.way)
        scores = self.class_scores(p, support, query)
        return Objective(F.cross_entropy(scores, query_labels), 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        views = tuple(self.views(images))
        h = torch.cat([self.embed(view) for view in views])
        p = prototypes(h, labels.repeat(len(views)), int(labels.max()) + 1)
        return lambda queries, view: self.class_scores(p, views[view], queries).softmax(1)
