"""Base class of methods that fit a classifier to features and leave the body as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.builtin_options import StatisticsOptions
from anyshot.core.errors import CodeError
from anyshot.data.tasks import Task
from anyshot.methods.base import Objective, accuracy
from anyshot.methods.stored_statistics import StoredStatisticsMethod
from anyshot.methods.test_time_augmentation import Probabilities
from anyshot.models.norm import QUERY_CALL


class EmbeddingMethod(StoredStatisticsMethod):
    """A classifier on features: ``fit`` is all that a subclass has to write.

    Meta-training minimises the query cross-entropy through ``fit``, if that is differentiable. With
    test-time augmentation the classifier is fitted to all views of the support images.
    """

    Options: ClassVar[type] = StatisticsOptions
    options: StatisticsOptions

    unused_settings: ClassVar[tuple[str, ...]] = (
        "adapt_body",
        "steps",
        "test_steps",
        "order",
        "alpha",
        "alpha_head",
    )  # no inner loop

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
        raise CodeError(f"{type(self).__name__} has no fit(); write it to classify features.")

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        norm = self.training_norm(noise or task.noise())
        # without stored statistics, training normalises the query set as tests do
        own = self.settings.transductive or self.stored_statistics
        reference = None if own else support
        score = self.fit(self.embed(support, norm=norm), labels, task.way)
        scores = score(self.embed(query, norm=norm.for_call(QUERY_CALL), reference=reference))
        return Objective(F.cross_entropy(scores, query_labels), 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        views = tuple(self.views(images))
        norm = self.test_norm(self.norm)
        features = torch.cat([self.embed(view, norm=norm) for view in views])
        score = self.fit(features, labels.repeat(len(views)), int(labels.max()) + 1)

        def probabilities(queries: Tensor, view: int) -> Tensor:
            reference = None if self.settings.transductive else views[view]
            return score(self.embed(queries, norm=norm, reference=reference)).softmax(1)

        return probabilities
