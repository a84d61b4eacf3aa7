"""MT-net (Lee and Choi, 2018): adapt a random subset of channels (M), in a learned, mixed space (T)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import InnerProblem, query_cross_entropy, support_gradient
from anyshot.inner_loop.update_rule import update
from anyshot.methods.balancing import broadcast_over_outputs
from anyshot.methods.base import Objective, Probabilities, accuracy, average_ensemble
from anyshot.methods.maml import MAML
from anyshot.methods.query_views import Views
from anyshot.models.network import HEAD_PARAMETERS, Body, Parameters


class MTNet(MAML):
    """A block is *conv W → 1×1 channel mixing T → normalisation …*. Inner step: W ← W − α M ∘ ∇W; T and ζ are only
    meta-learned. M ~ Bernoulli(sigmoid(ζ)), one a channel and one for the head, drawn once per task."""

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        start = settings.zeta
        self.mixing = nn.ParameterDict(
            {unit.weight: torch.eye(unit.channels) for unit in body.layers}
        )  # T
        self.zeta = nn.ParameterDict(
            {unit.weight: torch.full((unit.channels,), start) for unit in body.layers}
        )
        self.zeta["head_weight"] = torch.full((1,), start)  # one shared logit: no class is special

    def soft_mask(self, noise: torch.Generator, way: int) -> Parameters:
        """Gumbel-softmax at temperature 1 between "moves" (logit ζ) and "stays" (logit 0)."""
        masks = {}
        for name, zeta in self.zeta.items():
            size = way if name == "head_weight" else len(zeta)
            u = torch.rand(size, generator=noise, dtype=torch.float32).to(zeta)
            masks[name] = torch.sigmoid(
                zeta + u.log() - (-u).log1p()
            )  # logistic noise: the difference of two Gumbels
        return masks

    def mask(self, noise: torch.Generator, way: int) -> Parameters:
        """M, straight through: 0 or 1 forward, the soft mask's gradient backward."""
        return {
            name: (soft > 0.5).to(soft) + soft - soft.detach()
            for name, soft in self.soft_mask(noise, way).items()
        }

    def mixed(self, theta: Parameters, back: bool = False) -> Parameters:
        """Convolving with W and then mixing by T is convolving with T W. ``back``: from the gradient for T W to that
        for W, which is Tᵀ times it."""
        mixed = dict(theta)
        for unit in self.body.layers:
            mixing = self.mixing[unit.weight].t() if back else self.mixing[unit.weight]
            mixed[unit.weight] = torch.einsum("oi,i...->o...", mixing, theta[unit.weight])
            if unit.bias:
                mixed[unit.bias] = mixing @ theta[unit.bias]
        return mixed

    def masked_rates(self, noise: torch.Generator, way: int) -> Parameters:
        """α M, each shaped to its parameter."""
        mask, alpha = self.mask(noise, way), self.rates()
        rates = {
            HEAD_PARAMETERS[0]: alpha[HEAD_PARAMETERS[0]] * mask[HEAD_PARAMETERS[0]][:, None],
            HEAD_PARAMETERS[1]: alpha[HEAD_PARAMETERS[1]] * mask[HEAD_PARAMETERS[0]],
        }
        for unit in self.body.layers:
            m = mask[unit.weight]
            rates[unit.weight] = alpha[unit.weight] * broadcast_over_outputs(
                m, self.theta[unit.weight]
            )
            if unit.bias:
                rates[unit.bias] = alpha[unit.bias] * m
        return rates

    def adapted(
        self,
        images: Tensor,
        labels: Tensor,
        noise: torch.Generator,
        steps: int,
        order: int,
        views: Views = (),
    ) -> tuple[InnerProblem, Parameters]:
        """The inner problem, and the mixed parameters after its last step."""
        way = int(labels.max()) + 1
        inner, rates = (
            self.inner_problem(images, labels, way, {}, steps, views),
            self.masked_rates(noise, way),
        )

        def gradient(theta: Parameters, k: int) -> Parameters:
            return self.mixed(support_gradient(inner, self.mixed(theta), self.engine, k), back=True)

        return inner, self.mixed(update(inner.theta, gradient, rates, steps, order))

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        s = self.settings
        inner, theta = self.adapted(support, labels, noise or task.noise(), s.steps, s.order)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        return Objective(loss, 0.0, accuracy(scores, query_labels))

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        inner, theta = self.adapted(
            images, labels, noise, self.settings.test_steps, 0, tuple(self.views(images))
        )
        return average_ensemble([inner], [theta], self.engine)
