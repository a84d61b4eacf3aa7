"""What every method offers, and what the gradient methods share.

A method owns meta-parameters and offers three things, all that training and testing know of it:
``objective(task)`` for meta-training, ``adapt(images, labels)`` for a predictor, ``predict(task)`` for probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from anyshot.core.errors import CodeError
from anyshot.core.method_options import MethodOptions
from anyshot.core.options import method_options
from anyshot.core.registry import display_name
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import (
    InnerProblem,
    adapt_many,
    features,
    logits_many,
    query_cross_entropy,
    support_gradient,
)
from anyshot.inner_loop.update_rule import update
from anyshot.methods.balancing import Phi, Posterior, apply_gamma, apply_z, image_weights
from anyshot.methods.predictor import Images, Labels, Predictor, as_images, as_labels
from anyshot.methods.query_views import Views, zoomed
from anyshot.models.network import HEAD_PARAMETERS, Body, Norm, Parameters, zero_head


@dataclass(frozen=True)
class Objective:
    """What meta-training minimises for one task, ``loss + penalty``, and what it shows."""

    loss: Tensor  #: mean cross-entropy of the query set
    penalty: Tensor | float  #: KL / (N + M) or its like
    accuracy: float  #: on the query set
    kl: float = 0.0  #: the KL, not divided


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score is their label's."""
    return (scores.argmax(1) == labels).float().mean().item()


def apply_temperature(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T) / Σ p^(1/T): the softmax at temperature T, for probabilities [M, way] of any origin.

    >>> tempered(torch.tensor([[0.8, 0.2]]), 0.5)
    tensor([[0.9412, 0.0588]])
    """
    return (
        p
        if temperature == 1
        else (p.clamp_min(torch.finfo(p.dtype).tiny).log() / temperature).softmax(1)
    )


#: Images [M, channels, height, width] and which of the settings' views of them this is → probabilities [M, way]
Probabilities = Callable[[Tensor, int], Tensor]


def average_ensemble(
    members: Sequence[InnerProblem], thetas: Sequence[Parameters], engine: str = "auto"
) -> Probabilities:
    """The mean of the softmax over one or several adapted networks; images that are normalised by the support's
    statistics take those of the same view of it."""

    def probabilities(images: Tensor, view: int) -> Tensor:
        same = [replace(inner, images=inner.view(view)) for inner in members]
        return logits_many(same, thetas, images, engine).softmax(2).mean(0)

    return probabilities


class Method(nn.Module):
    """Meta-parameters that all methods have: the body's start θ and the normalisation's shift β."""

    #: The options of this method alone: a dataclass of :func:`anyshot.core.options.option` fields,
    #: which become options of ``anyshot train``. A subclass extends the Options of its base class.
    Options: ClassVar[type] = MethodOptions
    #: Shared settings that have no effect on this method.
    unused_settings: ClassVar[tuple[str, ...]] = ()

    temperature = 1.0  #: of its probabilities; what :mod:`anyshot.evaluation.temperature` has found
    engine = "auto"  #: what does the inner loop, as :mod:`anyshot.inner_loop` says; "autograd" is slower, the same numbers

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__()
        self.settings, self.body = settings, body
        self.options: Any = method_options(self.Options, settings.options)
        self.theta = nn.ParameterDict(body.init_parameters(generator, settings.start))
        self.shift = nn.ParameterList(body.norm().shift)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for base in cls.__mro__[1:]:
            inherited = getattr(base, "Options", MethodOptions)
            if inherited is not MethodOptions and not issubclass(cls.Options, inherited):
                raise CodeError(
                    f"{cls.__name__}.Options must extend the options of {base.__name__}: write "
                    f"class Options({base.__name__}.Options)."
                )

    @property
    def name(self) -> str:
        """What to call it in tables and sentences."""
        return display_name(self.settings.name)

    def learning_rate_multipliers(self) -> dict[str, float]:
        """How much faster or slower than the optimiser's rate a named parameter learns, where not 1."""
        return {}

    @property
    def reference_tensor(self) -> Tensor:
        """A tensor whose type and device are the method's."""
        return self.shift[0]

    @property
    def norm(self) -> Norm:
        return Norm(list(self.shift))

    def embed(
        self,
        images: Tensor,
        theta: Parameters | None = None,
        norm: Norm | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        """Features [n, width] of images [n, channels, height, width] at θ and the normalisations' β and s, or at their
        start, differentiable once; with the statistics of the ``reference`` images, or of the set in hand."""
        theta, norm = theta or dict(self.theta), norm or self.norm
        return features(
            theta, norm, images, self.settings.centre, reference, self.engine, self.body.features
        )

    def to_input(self, images: Images) -> Tensor:
        """Images for the network: float in [0, 1] where the meta-parameters are."""
        return as_images(images, self.body, self.reference_tensor)

    def task_tensors(self, task: Task) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Support images, support labels, query images and query labels where the meta-parameters are."""
        device = self.reference_tensor.device
        return (
            self.to_input(task.support), task.support_labels.to(device),
            self.to_input(task.query), task.query_labels.to(device),
        )  # fmt: skip

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        """The task's meta-training objective, differentiable in the meta-parameters."""
        raise NotImplementedError

    @torch.inference_mode(False)
    @torch.no_grad()
    def adapt(
        self,
        images: Images,
        labels: Labels,
        noise: torch.Generator | None = None,
        prediction: str | None = None,
    ) -> Predictor:
        """A classifier learned from images and their labels, tensors or arrays; no graph is kept.

        Images are uint8 [N, height, width, channels] or float [N, channels, height, width] in [0, 1]; labels [N] are
        integers 0..C−1, each there at least once. ``noise`` (seed 0 by default) is for methods that draw;
        ``prediction`` "naive" or "mc" overrides the settings (validation is naive).
        """
        x = self.to_input(images)
        y = as_labels(labels, len(x), self.reference_tensor.device)
        noise = noise or torch.Generator().manual_seed(0)
        prediction = prediction or getattr(self.options, "prediction", "mc")
        classify = self.adapt_classifier(x, y, noise, prediction)

        def probabilities(queries: Tensor) -> Tensor:
            answers = [classify(view, i) for i, view in enumerate(self.views(queries))]
            return apply_temperature(torch.stack(answers).mean(0), self.temperature)

        return Predictor(
            probabilities,
            self.body,
            self.reference_tensor,
            int(y.max()) + 1,
            self.settings.transductive,
        )

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        """What :meth:`adapt` wraps: learn from float images [N, channels, height, width] and labels [N]."""
        raise NotImplementedError

    def predict(
        self, task: Task, noise: torch.Generator | None = None, prediction: str | None = None
    ) -> Tensor:
        """Probabilities [M, way] of the task's query images after learning from its support set."""
        method = self
        if self.settings.flips and not task.flip_invariant:
            method = copy.copy(self)  # the same parameters
            method.settings = replace(self.settings, flips=False)
        return method.adapt(task.support, task.support_labels, noise or task.noise(), prediction)(
            task.query
        )

    def views(self, images: Tensor) -> Iterator[Tensor]:
        """What a classifier learns from, and is asked about: the images as they are and at the settings' other zooms,
        and mirror images of these where the settings say so."""
        for scale in (1.0, *self.settings.zooms):
            view = images if scale == 1 else zoomed(images, scale)
            yield view
            if self.settings.flips:
                yield view.flip(3)


class GradientMethod(Method):
    """Methods with an inner loop. A method is what it says of four things: where the head starts, the step sizes, the
    posterior of the balancing variables (if it has any), and the update rule (if not the shared one)."""

    alpha: ClassVar[float]  #: the paper's inner step size

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        """The head's start, given the body's: zeros, not learned."""
        return zero_head(way, self.body.width, self.reference_tensor)

    def rates(self) -> Parameters:
        """α, each entry broadcastable to its parameter."""
        raise NotImplementedError

    def posterior(self, images: Tensor, labels: Tensor, way: int) -> Posterior | None:
        """q(φ | D), for methods that balance."""
        return None

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """φ as it acts on a task with so many images a class (after gains and priors, where a method has them)."""
        return phi

    def initial_parameters(self, phi: Phi) -> tuple[Parameters, Norm]:
        """θ_0 of the body and its normalisation, for one φ."""
        return apply_z(dict(self.theta), self.norm, phi, self.body)

    def image_weights(self, labels: Tensor, way: int, phi: Phi) -> Tensor:
        """The weight of each support image in the inner loss, [N]."""
        return image_weights(labels, way, phi, self.reference_tensor)

    def training_phi(self, q: Posterior, noise: torch.Generator) -> Phi:
        """φ of a training task: a sample of the posterior."""
        return q.sample(noise)

    def penalty(self, q: Posterior) -> Tensor:
        """The penalty of a training task, before division by N + M: the KL."""
        return q.kl()

    def test_phis(self, q: Posterior, noise: torch.Generator, prediction: str) -> list[Phi]:
        """The values of φ whose predictions are averaged: the posterior mean alone."""
        return [q.mean]

    def inner_problem(
        self, images: Tensor, labels: Tensor, way: int, phi: Phi, steps: int, views: Views = ()
    ) -> InnerProblem:
        """The task's inner problem for one φ, whose steps see the ``views`` of the images in turn, if there are any."""
        s, phi = (
            self.settings,
            self.apply_gains_and_priors(
                phi, torch.bincount(labels, minlength=way).to(self.reference_tensor)
            ),
        )
        theta, norm = self.initial_parameters(phi)
        theta = {**theta, **self.head(theta, norm, images, labels, way)}
        weights = self.image_weights(labels, way, phi)
        rates, body = apply_gamma(self.rates(), phi, self.body), self.body.features
        return InnerProblem(
            images=images,
            labels=labels,
            weights=weights,
            theta=theta,
            rates=rates,
            norm=norm,
            steps=steps,
            centre=s.centre,
            transductive=s.transductive,
            body=body,
            views=views,
        )

    def gradient(
        self, inner: InnerProblem, theta: Parameters, order: int, step: int = 0
    ) -> Parameters:
        """g at θ on the support set, as a function of θ if ``order`` is 2, and as a constant otherwise; ``step`` says
        whose view of the images counts, where steps see different ones."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and order == 2):
            return support_gradient(inner, theta, self.engine, step)

    def adapted_parameters(self, inner: InnerProblem, order: int) -> Parameters:
        """θ_K by the update rule, which is the shared one unless a method says otherwise."""
        return update(
            inner.theta,
            lambda t, k: self.gradient(inner, t, order, k),
            inner.rates,
            inner.steps,
            order,
        )

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        q = self.posterior(support, labels, task.way)
        phi: Phi = {}
        if q is not None:
            phi = self.training_phi(q, noise or task.noise())
        inner = self.inner_problem(support, labels, task.way, phi, self.settings.steps)
        theta = self.adapted_parameters(inner, self.settings.order)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        hits = accuracy(scores, query_labels)
        if q is None:
            return Objective(loss, 0.0, hits)
        kl = self.penalty(q)
        return Objective(loss, kl / (len(labels) + len(query_labels)), hits, kl.item())

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        way = int(labels.max()) + 1
        q = self.posterior(
            images, labels, way
        )  # of the images alone: other views of them are no further evidence
        phis: list[Phi] = [{}] if q is None else self.test_phis(q, noise, prediction)
        views = tuple(self.views(images))
        members = [
            self.inner_problem(images, labels, way, phi, self.settings.test_steps, views)
            for phi in phis
        ]
        thetas = adapt_many(members, rule=lambda inner: self.adapted_parameters(inner, order=0))
        return average_ensemble(members, thetas, self.engine)


def constant_rates(method: GradientMethod) -> Parameters:
    """The settings' step sizes (or the method's own) as numbers, one for the body and one for the head."""
    s, like = method.settings, method.reference_tensor
    body = method.alpha if s.alpha is None else s.alpha
    head = body if s.alpha_head is None else s.alpha_head
    return {
        name: like.new_full((), head if name in HEAD_PARAMETERS else body)
        for name in (*method.theta, *HEAD_PARAMETERS)
    }
