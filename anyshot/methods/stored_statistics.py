"""Methods whose tests may normalise with statistics of training images."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import TaskStream
from anyshot.methods.base import Method
from anyshot.models.network import Body, Norm
from anyshot.models.stored_norm import ShrunkNorm, StoredNorm, measure_statistics

STATISTICS_IMAGES = 512  #: training images whose statistics are stored


class StoredStatisticsMethod(Method):
    """A method that may have the options ``stored_statistics`` and ``norm_prior``.

    Both need the statistics of training images at the initial body, which are stored at each
    validation and are constants in inner steps and predictions. Training uses those of each batch.

    - ``stored_statistics``: inductive tests use the stored ones, as in most published code.
    - ``norm_prior``: all other tests shrink those of each set towards the stored ones
      (:class:`anyshot.models.stored_norm.ShrunkNorm`).
    """

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        self.stored_statistics: bool = getattr(self.options, "stored_statistics", False)
        self.norm_prior: float = getattr(self.options, "norm_prior", 0.0)
        if self.stored_statistics or self.norm_prior:
            blank = torch.zeros(1, body.image_channels, *body.image_size)
            measure_statistics(body, dict(self.theta), self.norm, blank)  # refuses other bodies
            for i, layer in enumerate(body.layers):
                self.register_buffer(f"stored_mean{i}", torch.zeros(layer.channels))
                self.register_buffer(f"stored_variance{i}", torch.ones(layer.channels))

    def test_norm(self, norm: Norm) -> Norm:
        """The normalisations of tests: with stored statistics, if the settings say so."""
        only_stored = self.stored_statistics and not self.settings.transductive
        if not only_stored and not self.norm_prior:
            return norm
        state = dict(self.named_buffers())
        layers = range(len(self.body.layers))
        statistics = [(state[f"stored_mean{i}"], state[f"stored_variance{i}"]) for i in layers]
        norms = norm.shift, norm.scale
        if only_stored:
            return StoredNorm(*norms, constants=norm.constants, statistics=statistics)
        return ShrunkNorm(
            *norms,
            constants=norm.constants,
            statistics=statistics,
            prior_images=self.norm_prior,
        )

    def before_validation(self, training: TaskStream) -> None:
        """Store the statistics of images of training tasks."""
        if not self.stored_statistics and not self.norm_prior:
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
