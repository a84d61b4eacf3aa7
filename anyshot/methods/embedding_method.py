"""Base class of methods that fit a classifier to features and leave the body as it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.builtin_options import EmbeddingOptions
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods.base import Method, Objective, accuracy
from anyshot.methods.test_time_augmentation import Probabilities
from anyshot.models.network import Body
from anyshot.models.norm import QUERY_CALL, Norm
from anyshot.models.stored_norm import StoredNorm, measure_statistics

STATISTICS_IMAGES = 512  #: training images whose statistics are stored


class EmbeddingMethod(Method):
    """A classifier on features: ``fit`` is all that a subclass has to write.

    Meta-training minimises the query cross-entropy through ``fit``, if that is differentiable. With
    test-time augmentation the classifier is fitted to all views of the support images.

    With ``stored_statistics``, batch norm works as in most published code: training uses the
    statistics of each batch, inductive tests those of training images, which are stored.
    """

    Options: ClassVar[type] = EmbeddingOptions
    options: EmbeddingOptions

    unused_settings: ClassVar[tuple[str, ...]] = (
        "adapt_body",
        "steps",
        "test_steps",
        "order",
        "alpha",
        "alpha_head",
    )  # no inner loop

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        if self.options.stored_statistics:
            for i, layer in enumerate(body.layers):
                self.register_buffer(f"stored_mean{i}", torch.zeros(layer.channels))
                self.register_buffer(f"stored_variance{i}", torch.ones(layer.channels))

    def stored_norm(self) -> Norm | None:
        """The normalisations with stored statistics; None: with those of a batch."""
        if self.settings.transductive or not self.options.stored_statistics:
            return None
        state = dict(self.named_buffers())
        layers = range(len(self.body.layers))
        statistics = [(state[f"stored_mean{i}"], state[f"stored_variance{i}"]) for i in layers]
        return StoredNorm(list(self.shift), constants=self.norm.constants, statistics=statistics)

    def before_validation(self, training: TaskStream) -> None:
        """Store the statistics of images of training tasks."""
        if not self.options.stored_statistics:
            return
        tasks = (training.task(index) for index in itertools.count())
        images: list[Tensor] = []
        while sum(map(len, images)) < STATISTICS_IMAGES:
            task = next(tasks)
            images += [self.to_input(task.support), self.to_input(task.query)]
        x = torch.cat(images)[:STATISTICS_IMAGES]
        measured = measure_statistics(self.body, dict(self.theta), self.norm, x)
        state = dict(self.named_buffers())
        for i, (mean, variance) in enumerate(measured):
            state[f"stored_mean{i}"].copy_(mean)
            state[f"stored_variance{i}"].copy_(variance)

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        """Fit a classifier to support features.

        Parameters
        ----------
        features : Tensor, shape [N, width]
        labels : Tensor, shape [N]
            Integers 0..way−1.
        way : int
            Number of classes.

        Returns
        -------
        callable
            Query features [M, width] → logits [M, way].
        """
        raise NotImplementedError

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        norm = self.training_norm(noise or task.noise())
        # without stored statistics, training normalises the query set as tests do
        own = self.settings.transductive or self.options.stored_statistics
        reference = None if own else support
        score = self.fit(self.embed(support, norm=norm), labels, task.way)
        scores = score(self.embed(query, norm=norm.for_call(QUERY_CALL), reference=reference))
        return Objective(F.cross_entropy(scores, query_labels), 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        views = tuple(self.views(images))
        norm = self.stored_norm()
        features = torch.cat([self.embed(view, norm=norm) for view in views])
        score = self.fit(features, labels.repeat(len(views)), int(labels.max()) + 1)

        def probabilities(queries: Tensor, view: int) -> Tensor:
            reference = None if self.settings.transductive else views[view]
            return score(self.embed(queries, norm=norm, reference=reference)).softmax(1)

        return probabilities
