"""ABML: a Gaussian over every weight, whose mean and deviation the inner loop adapts."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.builtin_options import ABMLOptions
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import InnerProblem, query_cross_entropy, support_gradient
from anyshot.inner_loop.update_rule import update
from anyshot.methods.base import Objective, accuracy
from anyshot.methods.gradient_method import GradientMethod
from anyshot.methods.test_time_augmentation import Probabilities, Views, average_softmax
from anyshot.models.network import HEAD_PARAMETERS, Body, Parameters


class ABML(GradientMethod):
    """Amortized Bayesian meta-learning (Ravi and Beatson, ICLR 2019).

    https://openreview.net/forum?id=rkgpy3C5tX

        prior p_θ = N(μ, σ²),    σ = softplus(ρ)
        inner: K steps on (μ, ρ) of E_q[Σ_n w_n CE_n] + KL(q ‖ p_θ) / N
        outer: query CE + [KL(q_K ‖ p_θ) − log N(μ; 0, 1) − log Gamma(1/σ²; 1, 0.01)] / (N + M)

    The meta-parameters are the mean μ = θ and the deviation σ of every weight. They are the prior
    and the start of each task's posterior q. The inner loop draws one sample a step, the outer loss
    one sample of q_K, and prediction averages over several samples of q_K.

    The head's μ is zero and not learned; its ρ is shared by all classes. The curvature of the KL in
    μ is 1 / (N σ²), 10⁴ / N at the start, so a plain step of α = 0.5 diverges. The steps on μ are
    therefore α / (1 + α / (N σ²)): exactly the implicit (proximal) step on the KL's quadratic term.
    """

    Options = ABMLOptions
    unused_settings = ("adapt_body",)  # every weight has a posterior
    options: ABMLOptions
    alpha = 0.5

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        deviation = self.options.deviation
        head_deviation = self.options.deviation_head
        head = deviation if head_deviation is None else head_deviation
        sizes = {name: value.shape for name, value in self.theta.items()}
        sizes.update(head_weight=torch.Size([1, body.width]), head_bias=torch.Size([1]))
        sigma = {name: head if name in HEAD_PARAMETERS else deviation for name in sizes}
        self.rho = nn.ParameterDict(
            {name: torch.full(sizes[name], math.log(math.expm1(sigma[name]))) for name in sizes}
        )

    def run_inner_loop(
        self,
        images: Tensor,
        labels: Tensor,
        noise: torch.Generator,
        steps: int,
        order: int,
        views: Views = (),
        training: bool = False,
    ) -> tuple[InnerProblem, Parameters, Parameters]:
        """The inner problem, the prior and q_K; both have "mean NAME", "rho NAME" per parameter."""
        way = int(labels.max()) + 1
        dropout = noise if training else None
        inner = self.inner_problem(images, labels, way, {}, steps, views, dropout)
        n = len(labels)
        prior = {f"mean {name}": mean for name, mean in inner.theta.items()}
        prior |= {
            f"rho {name}": self.rho[name].expand_as(mean) for name, mean in inner.theta.items()
        }

        def gradient(q: Parameters, k: int) -> Parameters:
            """∇ [CE(μ + σ ∘ ε) + KL / N] by the chain rule from g = ∇ CE."""
            epsilon = draw_noise(q, noise)
            kl = kl_gradient(q, prior)
            result = {}
            for name, g in support_gradient(inner, sample(q, epsilon), self.engine, k).items():
                mean = f"mean {name}"
                rho = f"rho {name}"
                result[mean] = g + kl[mean] / n
                result[rho] = g * epsilon[name] * torch.sigmoid(q[rho]) + kl[rho] / n
            return result

        rates = {key: inner.rates[key.partition(" ")[2]] for key in prior}
        for name in inner.theta:
            alpha = inner.rates[name]
            sigma = F.softplus(prior[f"rho {name}"])
            rates[f"mean {name}"] = alpha / (1 + alpha / (n * sigma**2))
        return inner, prior, update(prior, gradient, rates, steps, order)

    def hyperprior(self) -> Tensor:
        """−log N(μ; 0, 1) − log Gamma(1/σ²; 1, 0.01) of the meta-parameters, up to a constant."""
        means = sum((mean**2).sum() for mean in self.theta.values())
        precisions = sum((F.softplus(rho) ** -2).sum() for rho in self.rho.values())
        return 0.5 * means + 0.01 * precisions

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        noise = noise or task.noise()
        s = self.settings
        inner, prior, q = self.run_inner_loop(
            support, labels, noise, s.steps, s.order, training=True
        )
        theta = sample(q, draw_noise(q, noise))
        kl = gaussian_kl(q, prior)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        penalty = (kl + self.hyperprior()) / (len(labels) + len(query_labels))
        return Objective(loss, penalty, accuracy(scores, query_labels), kl.item())

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        s = self.settings
        inner, _, q = self.run_inner_loop(
            images, labels, noise, s.test_steps, 0, tuple(self.views(images))
        )
        if prediction == "naive":
            mean = {name: q[f"mean {name}"] for name in inner.theta}
            return average_softmax([inner], [mean], self.engine)
        samples = [sample(q, draw_noise(q, noise)) for _ in range(self.options.samples)]
        return average_softmax([inner] * len(samples), samples, self.engine)


def parameter_names(q: Parameters) -> list[str]:
    """Names of the network's parameters, of which q has "mean NAME" and "rho NAME"."""
    return [key.removeprefix("mean ") for key in q if key.startswith("mean ")]


def draw_noise(q: Parameters, noise: torch.Generator) -> Parameters:
    """ε ~ N(0, 1) for each parameter."""
    means = {name: q[f"mean {name}"] for name in parameter_names(q)}
    return {
        name: torch.randn(mean.shape, generator=noise, dtype=torch.float32).to(mean)
        for name, mean in means.items()
    }


def sample(q: Parameters, epsilon: Parameters) -> Parameters:
    """θ̂ = μ + σ ∘ ε."""
    return {
        name: q[f"mean {name}"] + F.softplus(q[f"rho {name}"]) * epsilon[name]
        for name in parameter_names(q)
    }


def gaussian_kl(q: Parameters, p: Parameters) -> Tensor:
    """KL(q ‖ p) = Σ log σ_p/σ_q + (σ_q² + (μ_q − μ_p)²) / (2 σ_p²) − ½ over all parameters."""
    terms = []
    for name in parameter_names(q):
        sigma_q = F.softplus(q[f"rho {name}"])
        sigma_p = F.softplus(p[f"rho {name}"])
        square = (sigma_q**2 + (q[f"mean {name}"] - p[f"mean {name}"]) ** 2) / (2 * sigma_p**2)
        terms.append(((sigma_p / sigma_q).log() + square - 0.5).sum())
    return torch.stack(terms).sum()


def kl_gradient(q: Parameters, p: Parameters) -> Parameters:
    """∇ KL(q ‖ p): (μ_q − μ_p) / σ_p² for μ_q, (σ_q / σ_p² − 1 / σ_q) · sigmoid(ρ_q) for ρ_q."""
    result = {}
    for name in parameter_names(q):
        mean = f"mean {name}"
        rho = f"rho {name}"
        sigma = F.softplus(q[rho])
        variance = F.softplus(p[rho]) ** 2
        result[mean] = (q[mean] - p[mean]) / variance
        result[rho] = (sigma / variance - 1 / sigma) * torch.sigmoid(q[rho])
    return result
