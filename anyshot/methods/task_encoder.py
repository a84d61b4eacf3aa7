"""q(φ | D; ψ): from a task's own support images to a Gaussian for each balancing variable.

    image ─NN1─► features ─pool over a class─► s_c ─► ω̃_c          s_c ─NN2─► ─pool over the classes─► v ─► γ̃, z̃

Pooling keeps several statistics of the set, so that the encoder sees how much and how varied the evidence is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.method_options import TAMLOptions
from anyshot.core.parallel.threads import single_task_threads
from anyshot.core.registry import STATISTICS
from anyshot.methods.balancing import Posterior, variable_sizes
from anyshot.methods.set_statistics import FeatureSets, set_statistics
from anyshot.models.network import Body, truncated_normal

MOST_SHOTS = 50  #: what the encoder is told as 1


class StatisticsPooling(nn.Module):
    """[n, width] → [sets, width · 4]: a linear layer from the statistics to 4 numbers for each feature, then ReLU."""

    def __init__(self, statistics: Sequence[str]) -> None:
        super().__init__()
        self.statistics, self.mix = (
            [STATISTICS[name] for name in statistics],
            nn.Linear(len(statistics), 4),
        )

    def forward(self, features: Tensor, members: Tensor, cardinality: Tensor) -> Tensor:
        """Features [n, width], 0/1 members [sets, n], cardinality [sets]."""
        return F.relu(
            self.mix(set_statistics(FeatureSets(features, members, cardinality), self.statistics))
        ).flatten(1)


class TaskEncoder(nn.Module):
    """Amortised inference network; see the top of this file. The number of classes is free."""

    def __init__(
        self, options: TAMLOptions, body: Body, generator: torch.Generator, start: str = "paper"
    ) -> None:
        super().__init__()
        self.options = options
        with torch.device(
            "meta"
        ):  # shapes alone: torch's own start would draw from its global generator
            self._build(options, body)
        self.to_empty(device="cpu")
        self._start(generator, start)

    def _build(self, options: TAMLOptions, body: Body) -> None:
        height, width = (side // 4 for side in body.image_size)
        self.conv1 = nn.Conv2d(body.image_channels, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 10, 3, padding=1)
        self.image_features = nn.Linear(10 * height * width, 64)
        self.class_pooling = StatisticsPooling(options.statistics)
        task_width = 64
        if options.hierarchical:
            self.class_features = nn.Sequential(
                nn.Linear(64 * 4, 128), nn.ReLU(), nn.Linear(128, 32)
            )
            task_width = 32
        self.task_pooling = StatisticsPooling(options.statistics)
        self.heads = nn.ModuleDict()
        for name in options.balance:
            width, hidden = (
                (64 * 4, options.omega_hidden) if name == "omega" else (task_width * 4, 64)
            )
            out = nn.Linear(hidden or width, 2 * variable_sizes(body)[name])
            self.heads[name] = (
                nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), out) if hidden else out
            )

    @torch.no_grad()
    def _start(self, generator: torch.Generator, start: str) -> None:
        """All weights N(0, σ), those of convolutions cut at ±2σ; biases 0. σ = 0.02 (``paper``) or √(2 / fan-in)
        (``he``), with which a task's statistics reach φ from the first iteration instead of after thousands."""
        for name, parameter in self.named_parameters():
            sigma = 0.02 if start == "paper" else (2 / parameter[0].numel()) ** 0.5
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 4:
                parameter.copy_(truncated_normal(parameter.shape, sigma, generator))
            else:
                parameter.copy_(sigma * torch.randn(parameter.shape, generator=generator))

    def encode_size(self, sizes: Tensor) -> Tensor:
        """Sizes as the encoder is told them: 0 for one image, 1 for fifty. On the scale of logarithms, tasks larger
        than any before are not far away."""
        if self.options.cardinality == "log":
            return sizes.log() / math.log(MOST_SHOTS)
        return (sizes - 1) / (MOST_SHOTS - 1)

    @single_task_threads()
    def forward(self, images: Tensor, labels: Tensor, way: int) -> Posterior:
        """Posterior of the task's φ from images [N, 3, height, width] and labels [N]."""
        h = F.max_pool2d(F.relu(self.conv1(images)), 2)  # NN1
        h = F.max_pool2d(F.relu(self.conv2(h)), 2)
        h = self.image_features(h.flatten(1))  # [N, 64]
        members = F.one_hot(labels, way).t().to(h)  # [C, N]
        shots = self.encode_size(members.sum(1))  # [C]
        s = self.class_pooling(h, members, shots)  # s_c, [C, 256]
        of_task = (
            self.class_features(s) if self.options.hierarchical else h
        )  # NN2, or all images at once
        v = self.task_pooling(of_task, of_task.new_ones(1, len(of_task)), shots.mean()[None])[0]
        mean, deviation = {}, {}
        for name, head in self.heads.items():
            mu, sigma = head(s if name == "omega" else v).unflatten(-1, (2, -1)).unbind(-2)
            mean[name], deviation[name] = mu.flatten(), F.softplus(sigma).flatten()
        return Posterior(mean, deviation)
