"""ABML (Ravi and Beatson, 2019): a Gaussian over every weight, adapted in the inner loop with its deviation."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.inner import step_aside
from anyshot.inner.update import Inner, update
from anyshot.methods.base import Objective, Probabilities, accuracy, ensemble
from anyshot.methods.maml import MAML
from anyshot.network import HEAD, Body, Parameters
from anyshot.settings import MethodSettings
from anyshot.tasks import Task


class ABML(MAML):
    """Meta-parameters μ = θ and ρ, σ = softplus(ρ): the prior p_θ = N(μ, σ²), where the task's q starts.

    Inner: K steps on (μ, ρ) of E_q[Σ_n w_n CE_n] + KL(q ‖ p_θ) / N, one sample a step.
    Outer: query CE of one sample + [KL(q_K ‖ p_θ) − log N(μ; 0, 1) − log Gamma(1/σ²; 1, 0.01)] / (N + M).
    The head's μ is zero and not learned; its ρ is shared by all classes. The KL's curvature in μ is 1 / (N σ²), 10⁴ / N
    at the start: a plain step of α = 0.5 would diverge, so the steps on μ are α / (1 + α / (N σ²)), which is exactly
    the implicit (proximal) step on the KL's quadratic term.
    """

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        deviation = settings.deviation
        head = deviation if settings.deviation_head is None else settings.deviation_head
        sizes = {name: value.shape for name, value in self.theta.items()}
        sizes.update(head_weight=torch.Size([1, body.width]), head_bias=torch.Size([1]))
        self.rho = nn.ParameterDict(
            {n: torch.full(size, math.log(math.expm1(head if n in HEAD else deviation))) for n, size in sizes.items()}
        )

    def adapted(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, steps: int, order: int
    ) -> tuple[Inner, Parameters, Parameters]:
        """The inner problem, the prior and q_K; both hold "mean name" and "rho name" for each parameter."""
        step_aside("ABML adapts a distribution over the weights")
        inner = self.inner(images, labels, int(labels.max()) + 1, {}, steps)
        prior = {f"mean {name}": mean for name, mean in inner.theta.items()}
        prior |= {f"rho {name}": self.rho[name].expand_as(mean) for name, mean in inner.theta.items()}

        def loss(q: Parameters, _: int) -> Tensor:
            scores = inner.support_logits(sample(q, noise))
            fit = inner.weights @ F.cross_entropy(scores, labels, reduction="none")
            return fit + gaussian_kl(q, prior) / len(labels)

        rates = {key: inner.rates[key.split()[1]] for key in prior}
        for key in [key for key in prior if key.startswith("mean")]:
            sigma = F.softplus(prior[key.replace("mean", "rho")])
            rates[key] = rates[key] / (1 + rates[key] / (len(labels) * sigma**2))
        return inner, prior, update(prior, loss, rates, steps, order)

    def hyperprior(self) -> Tensor:
        """−log N(μ; 0, 1) − log Gamma(1/σ²; 1, 0.01) of the meta-parameters, up to a constant."""
        means = sum((mean**2).sum() for name, mean in self.theta.items())
        precisions = sum((F.softplus(rho) ** -2).sum() for rho in self.rho.values())
        return 0.5 * means + 0.01 * precisions

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.tensors(task)
        noise, s = noise or task.noise(), self.settings
        inner, prior, q = self.adapted(support, labels, noise, s.steps, s.order)
        scores = inner.query_logits(sample(q, noise), query)
        loss, kl = F.cross_entropy(scores, query_labels), gaussian_kl(q, prior)
        penalty = (kl + self.hyperprior()) / (len(labels) + len(query_labels))
        return Objective(loss, penalty, accuracy(scores, query_labels), kl.item())

    def classifier(self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str) -> Probabilities:
        s = self.settings
        inner, _, q = self.adapted(images, labels, noise, s.test_steps, order=0)
        if prediction == "naive":
            return ensemble([inner], [{name: q[f"mean {name}"] for name in inner.theta}])
        return ensemble([inner] * s.samples, [sample(q, noise) for _ in range(s.samples)])


def sample(q: Parameters, noise: torch.Generator) -> Parameters:
    """θ̂ = μ + σ ∘ ε."""
    theta = {}
    for key, mean in q.items():
        kind, name = key.split()
        if kind == "mean":
            epsilon = torch.randn(mean.shape, generator=noise, dtype=torch.float32).to(mean)
            theta[name] = mean + F.softplus(q[f"rho {name}"]) * epsilon
    return theta


def gaussian_kl(q: Parameters, p: Parameters) -> Tensor:
    """KL(q ‖ p) = Σ log σ_p/σ_q + (σ_q² + (μ_q − μ_p)²) / (2 σ_p²) − ½ over all parameters."""
    total = torch.zeros(())
    for key, mean in q.items():
        kind, name = key.split()
        if kind == "mean":
            sigma_q, sigma_p = F.softplus(q[f"rho {name}"]), F.softplus(p[f"rho {name}"])
            square = (sigma_q**2 + (mean - p[key]) ** 2) / (2 * sigma_p**2)
            total = total.to(mean) + ((sigma_p / sigma_q).log() + square - 0.5).sum()
    return total
