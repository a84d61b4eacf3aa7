"""The base class of methods with an inner loop."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from anyshot.core.remedy import LOSSES, OVERSAMPLING, WEIGHTING
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task
from anyshot.inner_loop import InnerProblem, adapt_many, query_cross_entropy, support_gradient
from anyshot.inner_loop.update_rule import update
from anyshot.methods.balancing import Phi, apply_gamma, apply_z, image_weights
from anyshot.methods.base import Objective, accuracy
from anyshot.methods.posterior import Posterior
from anyshot.methods.stored_statistics import StoredStatisticsMethod
from anyshot.methods.test_time_augmentation import Probabilities, Views, average_softmax
from anyshot.models.network import HEAD_PARAMETERS, Norm, Parameters, linear_head, zero_head


class GradientMethod(StoredStatisticsMethod):
    """Base class of methods with an inner loop.

        θ_0 = θ ∗ z,    θ_k = θ_{k−1} − γ ∘ α ∘ ∇ Σ_n w_n CE_n(θ_{k−1}),    k = 1..K

    All gradient methods share this update rule. A method overrides the parts in which it differs:

    ==========================  =====================================  ==========================
    hook                        what it returns                        who overrides it
    ==========================  =====================================  ==========================
    ``rates``                   learning rates α                       ANIL (0 for the body),
                                                                       Meta-SGD (learned)
    ``head``                    initial parameters of the head         MAML (learned), Proto-MAML;
                                                                       Meta-SGD and TAML with a
                                                                       prototype head
    ``class_scores``            class scores of features               examples/cosine_head.py
    ``posterior``               q(φ | D) of the balancing variables    TAML
    ``apply_gains_and_priors``  φ after learned gains and priors       Meta-SGD, TAML
    ``initial_parameters``      θ_0 for one φ                          TAML (site of z)
    ``image_weights``           weights w_n of the support images      Meta-SGD ("1/N")
    ``training_phi``            φ of a training task                   TAML (deterministic)
    ``test_phis``               values of φ to average over            TAML (samples)
    ``penalty``                 penalty of the posterior               TAML (deterministic)
    ``adapted_parameters``      θ_K: the whole inner loop              examples/own_method.py
    ``objective``,              everything                             MT-net, ABML
    ``adapt_classifier``
    ==========================  =====================================  ==========================

    See Also
    --------
    anyshot.methods.maml.MAML : the shortest subclass.

    Examples
    --------
    ANIL is MAML with learning rate 0 for the body:

    >>> from anyshot import HEAD_PARAMETERS, MAML
    >>> class ANIL(MAML):
    ...     def rates(self):
    ...         rates = super().rates()
    ...         return {name: rate * (name in HEAD_PARAMETERS) for name, rate in rates.items()}
    """

    remedies = (*OVERSAMPLING, *WEIGHTING, *LOSSES)
    alpha: ClassVar[float]  #: the paper's inner learning rate

    @classmethod
    def needs_hessian(cls, settings: MethodSettings) -> bool:
        return settings.order == 2

    @property
    def adapts_body(self) -> bool:
        """Whether inner steps change the body; always, if the method does not use the setting."""
        return self.settings.adapt_body or "adapt_body" in self.unused_settings

    def head(
        self, theta: Parameters, norm: Norm, images: Tensor, labels: Tensor, way: int
    ) -> Parameters:
        """Initial parameters of the head, given θ_0 of the body: by default zeros.

        A linear head has ``head_weight`` [way, width] and ``head_bias`` [way]. A head with other
        parameters needs :meth:`class_scores`, and their learning rates in :meth:`rates`.
        """
        return zero_head(way, self.body.width, self.reference_tensor)

    def class_scores(self, theta: Parameters, features: Tensor) -> Tensor:
        """Class scores [n, way] of features [n, width]: linear. Any other head uses autograd."""
        return linear_head(theta, features)

    def rates(self) -> Parameters:
        """Learning rates α by parameter name, each broadcastable to its parameter.

        By default they are the two numbers of the settings, for body and head.
        """
        return constant_rates(self)

    def posterior(self, images: Tensor, labels: Tensor, way: int) -> Posterior | None:
        """q(φ | D) of a support set; None for methods without balancing variables."""
        return None

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """φ as it acts on a task with ``shots`` images of each class [way]."""
        return phi

    def initial_parameters(self, phi: Phi) -> tuple[Parameters, Norm]:
        """θ_0 of the body and its normalisations, for one φ."""
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
        self,
        images: Tensor,
        labels: Tensor,
        way: int,
        phi: Phi,
        steps: int,
        views: Views = (),
        noise: torch.Generator | None = None,
    ) -> InnerProblem:
        """The inner-loop problem of a task for one φ.

        With ``views`` of the support images, the steps use them in turn. ``noise`` is the source of
        dropout, for training tasks. Tests have none, and may have stored statistics.
        """
        shots = torch.bincount(labels, minlength=way).to(self.reference_tensor)
        phi = self.apply_gains_and_priors(phi, shots)
        theta, norm = self.initial_parameters(phi)
        training = noise is not None
        norm = replace(norm, seed=self.body.draw_seed(noise)) if training else self.test_norm(norm)
        head = self.head(theta, norm, images, labels, way)
        weights = self.image_weights(labels, way, phi)
        factors = self.remedy.class_factors(shots)
        problem = InnerProblem(
            images=images,
            labels=labels,
            weights=weights if factors is None else weights * factors[labels],
            theta={**theta, **head},
            rates=apply_gamma(self.rates(), phi, self.body, self.adapts_body),
            norm=norm,
            steps=steps,
            centre=self.settings.centre,
            transductive=self.settings.transductive or (training and self.stored_statistics),
            body=self.body.features,
            head=linear_head if _has_linear_head(self) else self.class_scores,
            views=views,
            logit_offset=self.remedy.logit_offset(shots),
            focal=self.remedy.focal,
        )
        return problem if self.adapts_body else problem.freeze_body(self.engine)

    def gradient(
        self, inner: InnerProblem, theta: Parameters, order: int, step: int = 0
    ) -> Parameters:
        """Gradient of the inner loss at θ.

        It is differentiable if ``order`` is 2 and constant otherwise. ``step`` selects the view of
        the support images.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and order == 2):
            return support_gradient(inner, theta, self.engine, step)

    def adapted_parameters(self, inner: InnerProblem, order: int) -> Parameters:
        """Run the inner loop and return θ_K."""

        def gradient(theta: Parameters, k: int) -> Parameters:
            return self.gradient(inner, theta, order, k)

        return update(inner.theta, gradient, inner.rates, inner.steps, order)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        support, labels, query, query_labels = self.task_tensors(task)
        noise = noise or task.noise()
        q = self.posterior(support, labels, task.way)
        phi: Phi = {} if q is None else self.training_phi(q, noise)
        steps = self.settings.steps
        inner = self.inner_problem(support, labels, task.way, phi, steps, noise=noise)
        theta = self.adapted_parameters(inner, self.settings.order)
        loss, scores = query_cross_entropy(inner, theta, query, query_labels, self.engine)
        correct = accuracy(scores, query_labels)
        if q is None:
            return Objective(loss, 0.0, correct)
        kl = self.penalty(q)
        return Objective(loss, kl / (len(labels) + len(query_labels)), correct, kl.item())

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        way = int(labels.max()) + 1
        q = self.posterior(images, labels, way)  # other views of the images are no new evidence
        phis: list[Phi] = [{}] if q is None else self.test_phis(q, noise, prediction)
        views = tuple(self.views(images))
        problems = [
            self.inner_problem(images, labels, way, phi, self.settings.test_steps, views)
            for phi in phis
        ]
        thetas = adapt_many(problems, rule=lambda inner: self.adapted_parameters(inner, order=0))
        return average_softmax(problems, thetas, self.engine)


def _has_linear_head(method: GradientMethod) -> bool:
    return type(method).class_scores is GradientMethod.class_scores


def constant_rates(method: GradientMethod) -> Parameters:
    """Learning rates of the settings, or of the method: one for the body and one for the head."""
    s = method.settings
    body = method.alpha if s.alpha is None else s.alpha
    head = body if s.alpha_head is None else s.alpha_head
    return {
        name: method.reference_tensor.new_full((), head if name in HEAD_PARAMETERS else body)
        for name in (*method.theta, *HEAD_PARAMETERS)
    }
