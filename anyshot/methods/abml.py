"""ABML (Ravi and Beatson, 2019): a Gaussian over every weight, adapted in the inner loop with its deviation."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import InnerProblem, query_cross_entropy, support_gradient
from anyshot.inner_loop.update_rule import update
from anyshot.methods.base import Objective, Probabilities, accuracy, average_ensemble
from anyshot.methods.maml import MAML
from anyshot.methods.query_views import Views
from anyshot.models.network import HEAD_PARAMETERS, Body, Parameters


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
            {
                n: torch.full(
                    size, math.log(math.expm1(head if n in HEAD_PARAMETERS else deviation))
                )
                for n, size in sizes.items()
            }
        )

    def adapted(
        self,
        images: Tensor,
        labels: Tensor,
        noise: torch.Generator,
        steps: int,
        order: int,
        views: Views = (),
    ) -> tuple[InnerProblem, Parameters, Parameters]:
        """The inner problem, the prior and q_K; both hold "mean name" and "rho name" for each parameter."""
        inner, n = (
            self.inner_problem(images, labels, int(labels.max()) + 1, {}, steps, views),
            len(labels),
        )
        prior = {f"mean {name}": mean for name, mean in inner.theta.items()}
        prior |= {
            f"rho {name}": self.rho[name].expand_as(mean) for name, mean in inner.theta.items()
        }

        def gradient(q: Parameters, k: int) -> Parameters:
            """Of CE(μ + σ ∘ ε) + KL / N: the chain rule by hand, since only g is large."""
            epsilon, kl = draw(q, noise), kl_gradient(q, prior)
            found = {}
            for name, g in support_gradient(inner, sample(q, epsilon), self.engine, k).items():
                mean, rho = f"mean {name}", f"rho {name}"
                found[mean] = g + kl[mean] / n
                found[rho] = g * epsilon[name] * torch.sigmoid(q[rho]) + kl[rho] / n
            return found

        rates = {key: inner.rates[key.split()[1]] for key in prior}
        for key in [key for key in prior if key.startswith("mean")]:
            sigma = F.softplus(prior[key.replace("mean", "rho")])
            rates[key] = rates[key] / (1 + rates[key] / (n * sigma**2))
        return inner, prior, update(prior, gradient, rates, steps, order)

    def hyperprior(self) -> Tensor:
        """−log N(μ; 0, 1) − log Gamma(1/σ²; 1, 0.01) of the meta-parameters, up to a constant."""
        means = sum((mean**2).sum() for name, mean in self.theta.items())
        precisions = sum((F.softplus(rho) ** -2).sum() for rho in self.rho.values())
        return 0.5 * means + 0.01 * precisions

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        noise, s = noise or task.noise(), self.settings
        inner, prior, q = self.adapted(support, labels, noise, s.steps, s.order)
        theta, kl = sample(q, draw(q, noise)), gaussian_kl(q, prior)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        penalty = (kl + self.hyperprior()) / (len(labels) + len(query_labels))
        return Objective(loss, penalty, accuracy(scores, query_labels), kl.item())

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        s = self.settings
        inner, _, q = self.adapted(
            images, labels, noise, s.test_steps, 0, tuple(self.views(images))
        )
        if prediction == "naive":
            return average_ensemble(
                [inner], [{name: q[f"mean {name}"] for name in inner.theta}], self.engine
            )
        samples = [sample(q, draw(q, noise)) for _ in range(s.samples)]
        return average_ensemble([inner] * s.samples, samples, self.engine)


def names(q: Parameters) -> list[str]:
    """The network's parameters, of which q has "mean name" and "rho name"."""
    return [key.removeprefix("mean ") for key in q if key.startswith("mean ")]


def draw(q: Parameters, noise: torch.Generator) -> Parameters:
    """ε ~ N(0, 1) for each parameter."""
    means = {name: q[f"mean {name}"] for name in names(q)}
    return {
        name: torch.randn(mean.shape, generator=noise, dtype=torch.float32).to(mean)
        for name, mean in means.items()
    }


def sample(q: Parameters, epsilon: Parameters) -> Parameters:
    """θ̂ = μ + σ ∘ ε."""
    return {
        name: q[f"mean {name}"] + F.softplus(q[f"rho {name}"]) * epsilon[name] for name in names(q)
    }


def gaussian_kl(q: Parameters, p: Parameters) -> Tensor:
    """KL(q ‖ p) = Σ log σ_p/σ_q + (σ_q² + (μ_q − μ_p)²) / (2 σ_p²) − ½ over all parameters."""
    terms = []
    for name in names(q):
        sigma_q, sigma_p = F.softplus(q[f"rho {name}"]), F.softplus(p[f"rho {name}"])
        square = (sigma_q**2 + (q[f"mean {name}"] - p[f"mean {name}"]) ** 2) / (2 * sigma_p**2)
        terms.append(((sigma_p / sigma_q).log() + square - 0.5).sum())
    return torch.stack(terms).sum()


def kl_gradient(q: Parameters, p: Parameters) -> Parameters:
    """∇ KL(q ‖ p): (μ_q − μ_p) / σ_p² for μ_q, and for ρ_q (σ_q / σ_p² − 1 / σ_q) · sigmoid(ρ_q)."""
    found = {}
    for name in names(q):
        mean, rho = f"mean {name}", f"rho {name}"
        sigma, variance = F.softplus(q[rho]), F.softplus(p[rho]) ** 2
        found[mean] = (q[mean] - p[mean]) / variance
        found[rho] = (sigma / variance - 1 / sigma) * torch.sigmoid(q[rho])
    return found
