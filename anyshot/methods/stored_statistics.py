"""Methods whose inductive tests normalise with statistics of training images."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import TaskStream
from anyshot.methods.base import Method
from anyshot.models.network import Body, Norm
from anyshot.models.stored_norm import StoredNorm, measure_statistics

STATISTICS_IMAGES = 512  #: training images whose statistics are stored


class StoredStatisticsMethod(Method):
    """A method that may have the option ``stored_statistics``.

    Batch norm then works as in most published code: training uses the statistics of each batch,
    inductive tests those of training images at the initial body, which are stored. Inner steps and
    predictions treat them as constants. Transductive tests ignore them.
    """

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        if self.stores_statistics:
            for i, layer in enumerate(body.layers):
                self.register_buffer(f"stored_mean{i}", torch.zeros(layer.channels))
                self.register_buffer(f"stored_variance{i}", torch.ones(layer.channels))

    @property
    def stores_statistics(self) -> bool:
        """Whether statistics of training images are stored."""
        return getattr(self.options, "stored_statistics", False)

    def test_norm(self, norm: Norm) -> Norm:
        """The normalisations of tests: with stored statistics, if the settings say so."""
        if self.settings.transductive or not self.stores_statistics:
            return norm
        state = dict(self.named_buffers())
        layers = range(len(self.body.layers))
        statistics = [(state[f"stored_mean{i}"], state[f"stored_variance{i}"]) for i in layers]
        return StoredNorm(norm.shift, norm.scale, constants=norm.constants, statistics=statistics)

    def before_validation(self, training: TaskStream) -> None:
        """Store the statistics of images of training tasks."""
        if not self.stores_statistics:
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
