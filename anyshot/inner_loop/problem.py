"""The inner problem of a task: what the inner loop minimises, and with which step sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from anyshot.inner_loop.frozen_body import FrozenBody, pass_through
from anyshot.models.bodies import conv4
from anyshot.models.network import Features, Head, Norm, Parameters, linear_head, logits
from anyshot.models.norm import QUERY_CALL


@dataclass(frozen=True, kw_only=True)
class InnerProblem:
    """A task's inner problem: K gradient steps from θ_0 on the support loss Σ_n w_n CE_n(θ).

    Parameters
    ----------
    images : Tensor, float [N, channels, height, width]
        Support images.
    labels : Tensor, int64 [N]
        Class numbers of the support images.
    weights : Tensor, float [N]
        w_n, the weight of each image in the support loss.
    theta : dict of str to Tensor
        θ_0, all adapted parameters, with those of the head.
    rates : dict of str to Tensor
        A = γ ∘ α, the step sizes, each broadcastable to its parameter.
    norm : Norm
        Shift β and scale s after each normalisation, which the inner loop does not adapt, and the
        seed of dropout. Each step and the query set draw other numbers from it.
    steps : int
        K, the number of steps.
    centre : bool
        Whether features are centred before the head.
    transductive : bool
        Whether the query set is normalised with its own batch statistics. If not, it is normalised
        with those of the support set at θ_K.
    body : callable
        (θ, norm, images) → features [n, width].
    head : callable
        (θ, features [n, width]) → class scores [n, way]. Default: linear.
    views : tuple of Tensor
        Augmented versions of the support images, one for each step in turn. Without any, each step
        sees ``images``.
    frozen : FrozenBody, optional
        The body, if the steps adapt the head alone. Then ``images`` and ``views`` are features, and
        ``theta`` is the head.
    logit_offset : Tensor, float [way], optional
        Added to the class scores in the support loss, not in predictions (logit adjustment).
    focal : float
        γ of the focal loss (1 − p)^γ CE, at least 1; 0: cross-entropy.

    Examples
    --------
    >>> import torch
    >>> import anyshot
    >>> rng = torch.Generator().manual_seed(0)
    >>> body = anyshot.create_body("conv4", (32, 32))
    >>> theta = body.init_parameters(rng, "he") | anyshot.zero_head(2, body.width, torch.zeros(()))
    >>> problem = anyshot.InnerProblem(
    ...     images=torch.rand(4, 3, 32, 32, generator=rng),
    ...     labels=torch.tensor([0, 0, 1, 1]),
    ...     weights=torch.full((4,), 1 / 4),
    ...     theta=theta,
    ...     rates={name: torch.tensor(0.1) for name in theta},
    ...     norm=body.norm(),
    ...     steps=3,
    ... )
    >>> adapted = anyshot.adapt(problem)
    >>> problem.query_logits(adapted, torch.rand(5, 3, 32, 32, generator=rng)).shape
    torch.Size([5, 2])
    """

    images: Tensor
    labels: Tensor
    weights: Tensor
    theta: Parameters
    rates: Parameters
    norm: Norm
    steps: int
    centre: bool = False
    transductive: bool = True
    body: Features = conv4.features
    head: Head = linear_head
    views: tuple[Tensor, ...] = ()
    frozen: FrozenBody | None = None
    logit_offset: Tensor | None = None
    focal: float = 0.0

    def view(self, step: int) -> Tensor:
        """The support images that a step sees: view ``step``, modulo the number of views."""
        return self.views[step % len(self.views)] if self.views else self.images

    def adjust_logits(self, theta: Parameters) -> tuple[Parameters, Head]:
        """θ and the head with which the support loss is computed: logits plus the offset."""
        offset = self.logit_offset
        if offset is None:
            return theta, self.head
        if self.head is linear_head:  # other biases, so that the engine can compute it
            return {**theta, "head_bias": theta["head_bias"] + offset}, self.head
        return theta, lambda at, features: self.head(at, features) + offset

    def freeze_body(self, engine: str = "auto") -> InnerProblem:
        """The same problem with steps on the head alone, on features that are computed once.

        ``engine`` computes the features. They are differentiable once in the body's parameters.
        """
        head = {name: value for name, value in self.theta.items() if name.startswith("head_")}
        frozen = FrozenBody(
            theta={name: value for name, value in self.theta.items() if name not in head},
            norm=self.norm,
            body=self.body,
            views=self.views or (self.images,),
            centre=self.centre,
            transductive=self.transductive,
            engine=engine,
        )
        features = frozen.support_features()
        return replace(
            self,
            images=features[0],
            views=features if self.views else (),
            theta=head,
            rates={name: self.rates[name] for name in head},
            centre=False,
            transductive=True,
            body=pass_through,
            frozen=frozen,
        )

    def at_view(self, view: int) -> InnerProblem:
        """The problem for query images in this view."""
        frozen = self.frozen and self.frozen.at_view(view)
        return replace(self, images=self.view(view), frozen=frozen)

    def network_input(self, images: Tensor) -> Tensor:
        """What the adapted network sees of query images: their features if the body is frozen."""
        return images if self.frozen is None else self.frozen.query_features(images)

    def reference(self) -> Tensor | None:
        """The images whose batch statistics normalise the query set; None: its own."""
        return None if self.transductive else self.images

    def query_logits(self, theta: Parameters, images: Tensor) -> Tensor:
        """Class scores [M, way] of query images, by torch operators."""
        norm = self.norm.for_call(QUERY_CALL)
        images, reference = self.network_input(images), self.reference()
        return logits(self.body, theta, norm, images, self.centre, reference, self.head)
