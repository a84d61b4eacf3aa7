"""Prototypical Networks (Snell et al., 2017): the nearest class mean in a learned feature space; no inner loop."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.methods.base import Method, Objective, Predictor, accuracy
from anyshot.network import Shape, body
from anyshot.settings import MethodSettings
from anyshot.tasks import Task


def prototypes(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """p_c, the mean feature of each class, [way, features]."""
    members = F.one_hot(labels, way).t().to(features)
    return (members / members.sum(1, keepdim=True)) @ features


class ProtoNet(Method):
    """logits = −‖f(x) − p_c‖², f the flattened body, normalised over the set in hand."""

    name = "protonet"

    def __init__(self, settings: MethodSettings, shape: Shape, generator: torch.Generator) -> None:
        super().__init__(dataclasses.replace(settings, start="he"), shape, generator)  # σ = 0.02 hardly moves

    def features(self, images: Tensor) -> Tensor:
        return body(dict(self.theta), self.norm, images, self.settings.centre)

    def scores(self, images: Tensor, p: Tensor) -> Tensor:
        return -((self.features(images)[:, None] - p) ** 2).sum(2)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.tensors(task)
        scores = self.scores(query, prototypes(self.features(support), labels, task.way))
        return Objective(F.cross_entropy(scores, query_labels), 0.0, accuracy(scores, query_labels))

    @torch.no_grad()
    def adapt(
        self, images: Tensor, labels: Tensor, noise: torch.Generator | None = None, prediction: str | None = None
    ) -> Predictor:
        p = prototypes(self.features(images), labels, int(labels.max()) + 1)
        return torch.no_grad()(lambda queries: self.scores(queries, p).softmax(1))
