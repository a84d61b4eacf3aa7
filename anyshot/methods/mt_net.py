"""MT-net: adapt a random subset of the channels in a learned, mixed space."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.core.builtin_options import MTNetOptions
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import InnerProblem, query_cross_entropy, support_gradient
from anyshot.inner_loop.update_rule import update
from anyshot.methods.balancing import broadcast_over_outputs
from anyshot.methods.base import Objective, accuracy
from anyshot.methods.gradient_method import GradientMethod
from anyshot.methods.test_time_augmentation import Probabilities, Views, average_softmax
from anyshot.models.network import HEAD_PARAMETERS, Body, Parameters


class MTNet(GradientMethod):
    """MT-net (Lee and Choi, ICML 2018): a learned metric and subspace of each layer.

    https://arxiv.org/abs/1801.05558

        block: conv W → 1×1 channel mixing T → normalisation → …
        M ~ Bernoulli(sigmoid(ζ)),    W ← W − α M ∘ ∇W

    The mask M chooses which output channels the inner loop may change; it is drawn once per task.
    The mixing T learns the space in which these steps are taken. T and ζ are only meta-learned.

    There is no T after the head and the head has one shared logit ζ, so that neither the number nor
    the order of the classes matters. A convolution with groups has no T: a mixture of its outputs
    is not such a convolution.
    """

    Options = MTNetOptions
    unused_settings = ("adapt_body",)  # masks and mixing act on the body
    options: MTNetOptions
    alpha = 0.5

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        start = self.options.zeta
        self.mixing = nn.ParameterDict(  # T, the identity at the start
            {layer.weight: torch.eye(layer.channels) for layer in body.layers if layer.groups == 1}
        )
        self.zeta = nn.ParameterDict(
            {layer.weight: torch.full((layer.channels,), start) for layer in body.layers}
        )
        self.zeta["head_weight"] = torch.full((1,), start)

    def soft_mask(self, noise: torch.Generator, way: int) -> Parameters:
        """Gumbel-softmax at temperature 1 between "adapted" (logit ζ) and "fixed" (logit 0)."""
        masks = {}
        for name, zeta in self.zeta.items():
            size = way if name == "head_weight" else len(zeta)
            u = torch.rand(size, generator=noise, dtype=torch.float32).to(zeta)
            # logistic noise log u − log(1 − u): the difference of two Gumbel variables
            masks[name] = torch.sigmoid(zeta + u.log() - (-u).log1p())
        return masks

    def mask(self, noise: torch.Generator, way: int) -> Parameters:
        """M, straight-through: 0 or 1 forward, the soft mask's gradient backward."""
        return {
            name: (soft > 0.5).to(soft) + soft - soft.detach()
            for name, soft in self.soft_mask(noise, way).items()
        }

    def mix_channels(self, theta: Parameters, transpose: bool = False) -> Parameters:
        """Parameters T W: convolving with W and then mixing by T is convolving with T W.

        With ``transpose`` the result is Tᵀ times the argument. It turns the gradient for T W into
        the gradient for W.
        """
        mixed = dict(theta)
        for layer in self.body.layers:
            if layer.weight not in self.mixing:
                continue
            mixing = self.mixing[layer.weight]
            mixing = mixing.t() if transpose else mixing
            mixed[layer.weight] = torch.einsum("oi,i...->o...", mixing, theta[layer.weight])
            if layer.bias:
                mixed[layer.bias] = mixing @ theta[layer.bias]
        return mixed

    def mask_rates(self, noise: torch.Generator, way: int) -> Parameters:
        """α M for a new mask, each entry broadcastable to its parameter."""
        mask = self.mask(noise, way)
        alpha = self.rates()
        rates = {
            **alpha,
            HEAD_PARAMETERS[0]: alpha[HEAD_PARAMETERS[0]] * mask[HEAD_PARAMETERS[0]][:, None],
            HEAD_PARAMETERS[1]: alpha[HEAD_PARAMETERS[1]] * mask[HEAD_PARAMETERS[0]],
        }
        for layer in self.body.layers:
            m = mask[layer.weight]
            rates[layer.weight] = alpha[layer.weight] * broadcast_over_outputs(
                m, self.theta[layer.weight]
            )
            if layer.bias:
                rates[layer.bias] = alpha[layer.bias] * m
        return rates

    def run_inner_loop(
        self,
        images: Tensor,
        labels: Tensor,
        noise: torch.Generator,
        steps: int,
        order: int,
        views: Views = (),
        training: bool = False,
    ) -> tuple[InnerProblem, Parameters]:
        """The inner problem, and the mixed parameters T W after its last step."""
        way = int(labels.max()) + 1
        dropout = noise if training else None
        inner = self.inner_problem(images, labels, way, {}, steps, views, dropout)
        rates = self.mask_rates(noise, way)

        def gradient(theta: Parameters, k: int) -> Parameters:
            g = support_gradient(inner, self.mix_channels(theta), self.engine, k)
            return self.mix_channels(g, transpose=True)

        return inner, self.mix_channels(update(inner.theta, gradient, rates, steps, order))

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        s = self.settings
        noise = noise or task.noise()
        inner, theta = self.run_inner_loop(support, labels, noise, s.steps, s.order, training=True)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        return Objective(loss, 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        inner, theta = self.run_inner_loop(
            images, labels, noise, self.settings.test_steps, 0, tuple(self.views(images))
        )
        return average_softmax([inner], [theta], self.engine)
