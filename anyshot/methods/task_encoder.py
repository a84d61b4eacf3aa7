"""The encoder q(φ | D; ψ): from a support set to a Gaussian for each balancing variable.

    image ─NN1─► features ─pool over a class─► s_c ─► ω̃_c
                           s_c ─NN2─► ─pool over the classes─► v ─► γ̃, z̃

Pooling (``pooling.py``) keeps several statistics of a set, so that the encoder sees its size and
its diversity.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.builtin_options import TAMLOptions
from anyshot.core.code_loading import check_call
from anyshot.core.parallel.threads import single_task_threads
from anyshot.core.registry import POOLINGS
from anyshot.methods.balancing import variable_sizes
from anyshot.methods.evidence import evidence_size
from anyshot.methods.posterior import Posterior
from anyshot.models.network import Body, truncated_normal

MOST_SHOTS = 50  #: class size that is encoded as 1


class TaskEncoder(nn.Module):
    """The network that infers the posterior of φ from a support set of any number of classes."""

    def __init__(
        self,
        options: TAMLOptions,
        body: Body,
        generator: torch.Generator,
        start: str = "paper",
        adapt_body: bool = True,
    ) -> None:
        super().__init__()
        self.options = options
        with torch.device("meta"):  # torch's own initialisation would use the global generator
            self._build(options, body, adapt_body)
        self.to_empty(device="cpu")
        self._initialise(generator, start)

    def _build(self, options: TAMLOptions, body: Body, adapt_body: bool) -> None:
        height, width = (side // 4 for side in body.image_size)
        self.conv1 = nn.Conv2d(body.image_channels, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 10, 3, padding=1)
        self.image_features = nn.Linear(10 * height * width, 64)
        pooling = POOLINGS[options.pooling]
        check_call(f"The pooling {options.pooling!r}", pooling, "width, options")
        self.class_pooling = pooling(64, options)
        task_width = 64
        if options.hierarchical:
            self.class_features = nn.Sequential(
                nn.Linear(64 * 4, 128), nn.ReLU(), nn.Linear(128, 32)
            )
            task_width = 32
        self.task_pooling = pooling(task_width, options)
        self.evidence_width = evidence_size(len(body.head_parts)) if options.evidence else 0
        self.heads = nn.ModuleDict()
        for name in options.balance:
            width, hidden = 64 * 4, options.omega_hidden
            if name != "omega":
                width, hidden = task_width * 4 + self.evidence_width, 64
            out = nn.Linear(hidden or width, 2 * variable_sizes(body, adapt_body)[name])
            self.heads[name] = (
                nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), out) if hidden else out
            )

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator, start: str) -> None:
        """Draw weights from N(0, σ²), those of convolutions truncated at ±2σ; biases are 0.

        σ is 0.02 (``paper``) or √(2 / fan-in) (``he``). With the latter the statistics of a task
        influence φ from the first iteration, with the former only after thousands.
        """
        for name, parameter in self.named_parameters():
            sigma = 0.02 if start == "paper" else (2 / parameter[0].numel()) ** 0.5
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 4:
                parameter.copy_(truncated_normal(parameter.shape, sigma, generator))
            else:
                parameter.copy_(sigma * torch.randn(parameter.shape, generator=generator))

    def encode_size(self, sizes: Tensor) -> Tensor:
        """Map set sizes to 0 for one image and 1 for fifty, linearly or by their logarithms.

        With logarithms, tasks that are larger than those of training are not far outside.
        """
        if self.options.cardinality == "log":
            return sizes.log() / math.log(MOST_SHOTS)
        return (sizes - 1) / (MOST_SHOTS - 1)

    def embed_images(self, images: Tensor) -> Tensor:
        """NN1: features [N, 64] of images [N, 3, height, width]."""
        h = F.max_pool2d(F.relu(self.conv1(images)), 2)
        h = F.max_pool2d(F.relu(self.conv2(h)), 2)
        return self.image_features(h.flatten(1))

    @single_task_threads()
    def forward(
        self, images: Tensor, labels: Tensor, way: int, evidence: Tensor | None = None
    ) -> Posterior:
        """Infer the posterior of φ from images [N, 3, height, width] and labels [N].

        ``evidence`` [evidence_width] is what held-out support images say about the features.
        """
        h = self.embed_images(images)  # [N, 64]
        members = F.one_hot(labels, way).t().to(h)  # [C, N]
        shots = self.encode_size(members.sum(1))  # [C]
        s = self.class_pooling(h, members, shots)  # s_c, [C, 256]
        h = self.class_features(s) if self.options.hierarchical else h  # NN2, or all images
        v = self.task_pooling(h, h.new_ones(1, len(h)), shots.mean()[None])[0]  # [128] or [256]
        if evidence is not None:
            v = torch.cat([v, evidence])
        mean, deviation = {}, {}
        for name, head in self.heads.items():
            mu, sigma = head(s if name == "omega" else v).unflatten(-1, (2, -1)).unbind(-2)
            mean[name] = mu.flatten()
            deviation[name] = F.softplus(sigma).flatten()
        return Posterior(mean, deviation)


class NormalizedTaskEncoder(TaskEncoder):
    """An encoder that cannot become blind: the activations of each image are standardised.

    In the paper's encoder all units of an image can end up negative, and no gradient reaches the
    convolutions any more. Here the activations of an image have mean 0 and variance 1 before each
    ReLU, so that a part of them is positive whatever the weights are. No statistic is shared
    between images. The weights start at He's scale, because at σ = 0.02 six layers pass on nearly
    nothing of what the images differ in.
    """

    def _initialise(self, generator: torch.Generator, start: str) -> None:
        super()._initialise(generator, "he")

    def embed_images(self, images: Tensor) -> Tensor:
        """NN1 with standardised activations: features [N, 64] of images [N, 3, height, width]."""
        h = F.max_pool2d(F.relu(standardise(self.conv1(images - 0.5))), 2)
        h = F.max_pool2d(F.relu(standardise(self.conv2(h))), 2)
        return standardise(self.image_features(h.flatten(1)))


def standardise(h: Tensor) -> Tensor:
    """Give the activations of each image [N, ...] mean 0 and variance 1."""
    return F.layer_norm(h, h.shape[1:])
