"""What happens inside a task: the update rule (:mod:`.update`), and its gradient by autograd or by the fast engine.

Everybody calls the functions of this file. ``engine="auto"`` takes the engine where it can and autograd where it
cannot, with one line in the log for each reason; ``"engine"`` and ``"autograd"`` insist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.threads import map_tasks
from anyshot.inner_loop import update_rule as update
from anyshot.inner_loop.engine import autograd_functions
from anyshot.inner_loop.update_rule import InnerProblem
from anyshot.models.bodies import conv4
from anyshot.models.network import HEAD_PARAMETERS, Features, Norm, Parameters, embed, logits

__all__ = [
    "InnerProblem", "adapt", "adapt_many", "cross_entropy", "features", "gradient", "logits_many", "query_cross_entropy",
    "query_loss", "support_gradient",
]  # fmt: skip

log = logging.getLogger(__name__)
_said: set[str] = set()


def gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    *,
    centre: bool = False,
    body: Features = conv4.features,
    engine: str = "auto",
) -> tuple[Parameters, Tensor]:
    """g = ∇_θ Σ_n w_n CE_n for images [N, channels, height, width] and labels [N], and the sum itself.

    Both are differentiable once more, in θ, w, β and s, so that any update rule written in plain torch around g has
    exact second-order meta-gradients at the engine's speed. Without gradients (``torch.no_grad()``) there is no graph.
    What depends on the images alone is kept with their tensor: give the same one at each step.

    The engine as one would use ``higher``: two steps of one's own rule, the query loss after them, and its exact
    gradients for the start and for the step size.

    >>> import anyshot
    >>> rng, body = torch.Generator().manual_seed(0), anyshot.create_body("conv4", (32, 32))
    >>> start = {name: value.requires_grad_() for name, value in body.start(rng, "he").items()}
    >>> rate, norm = torch.tensor(0.1, requires_grad=True), body.norm()
    >>> images, labels = torch.rand(6, 3, 32, 32, generator=rng), torch.tensor([0, 0, 0, 1, 1, 1])
    >>> support, query = images[::2], images[1::2]
    >>> theta = start | anyshot.zero_head(2, body.width, torch.zeros(()))
    >>> for step in range(2):
    ...     g, loss = anyshot.gradient(theta, support, labels[::2], torch.full((3,), 1 / 3), norm)
    ...     theta = {name: value - rate * g[name].clamp(-1, 1) for name, value in theta.items()}
    >>> losses, scores = anyshot.cross_entropy(theta, query, labels[1::2], norm)
    >>> losses.mean().backward()
    >>> start["conv1_weight"].grad.shape, rate.grad.shape
    (torch.Size([32, 3, 3, 3]), torch.Size([]))

    A rule of the form θ − A ∘ g is what :func:`anyshot.update` does.
    """
    labels = _checked(body, theta, images, labels)
    if weights.shape != labels.shape:
        raise AnyshotError(
            f"Weights are {list(weights.shape)}, but should be one for each of {len(labels)} images."
        )
    if _uses_engine(engine, autograd_functions.obstacle(body, theta, norm, [images], weights)):
        return autograd_functions.gradient(theta, images, labels, weights, norm, centre)
    return update.gradient(theta, images, labels, weights, norm, centre, body)


def cross_entropy(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    norm: Norm,
    *,
    centre: bool = False,
    reference: Tensor | None = None,
    body: Features = conv4.features,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """CE_n [N] of each image at θ, and the class scores [N, way] without a graph.

    Statistics are those of ``reference`` images, or of the images themselves. CE_n is differentiable in θ, β and s,
    twice in θ if the statistics are the images' own.
    """
    labels = _checked(body, theta, images, labels)
    if _uses_engine(
        engine, autograd_functions.obstacle(body, theta, norm, _sets(images, reference))
    ):
        return autograd_functions.cross_entropy(theta, images, labels, norm, centre, reference)
    scores = logits(body, theta, norm, images, centre, reference)
    return F.cross_entropy(scores, labels, reduction="none"), scores.detach()


def features(
    theta: Parameters, norm: Norm, images: Tensor, centre: bool = False, reference: Tensor | None = None,
    engine: str = "auto", body: Features = conv4.features,
) -> Tensor:  # fmt: skip
    """:func:`anyshot.models.network.embed`, differentiable once in θ, β and s; :func:`anyshot.models.network.embed` itself is
    differentiable as often as you like."""
    if _uses_engine(
        engine, autograd_functions.obstacle(body, theta, norm, _sets(images, reference))
    ):
        return autograd_functions.features(theta, norm, images, centre, reference)
    return embed(body, theta, norm, images, centre, reference)


# ---------------------------------------------------------------------------------------------- inner problems
def support_gradient(
    inner: InnerProblem, theta: Parameters, engine: str = "auto", step: int = 0
) -> Parameters:
    """:func:`gradient` of the problem's support loss at θ, on the images as the step sees them."""
    return gradient(
        theta, inner.view(step), inner.labels, inner.weights, inner.norm, centre=inner.centre, body=inner.body,
        engine=engine,
    )[0]  # fmt: skip


def query_cross_entropy(
    inner: InnerProblem, theta: Parameters, images: Tensor, labels: Tensor, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Mean :func:`cross_entropy` of the query set at θ and its class scores [M, way] (detached)."""
    losses, scores = cross_entropy(
        theta, images, labels, inner.norm, centre=inner.centre, reference=inner.reference(), body=inner.body,
        engine=engine,
    )  # fmt: skip
    return losses.mean(), scores


def query_loss(
    inner: InnerProblem, images: Tensor, labels: Tensor, order: int = 2, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of the query set at θ_K and the query's logits [M, way] (detached).

    The loss is differentiable in θ_0 (head included), A, w, β and s. ``order`` 2 is exact; 1 treats the inner gradients
    as constants, so that β and s count only through the query and w not at all; 0 leaves β and s alone.
    """
    return query_cross_entropy(inner, _moved(inner, order, engine), images, labels, engine)


def _moved(inner: InnerProblem, order: int, engine: str) -> Parameters:
    """θ_K."""
    return update.update(
        inner.theta,
        lambda t, k: support_gradient(inner, t, engine, k),
        inner.rates,
        inner.steps,
        order,
    )


def adapt(inner: InnerProblem, engine: str = "auto") -> Parameters:
    """θ_K without a graph."""
    return _moved(inner, 0, engine)


def adapt_many(
    inners: Sequence[InnerProblem],
    engine: str = "auto",
    workers: int | None = None,
    rule: Callable[[InnerProblem], Parameters] | None = None,
) -> list[Parameters]:
    """θ_K of several problems without graphs, for instance one for each sample of φ, on ``workers`` cores, by the
    shared update or by another ``rule``.

    Problems whose images (or views) are the same tensors share what depends on the images alone (the patch moments).
    """
    rule = rule or (lambda inner: adapt(inner, engine))
    if (
        len(inners) == 1 and workers is None
    ):  # nothing to share out: all threads for the one there is
        return [rule(inners[0])]
    return map_tasks(rule, inners, workers, size=lambda inner: len(inner.labels) * inner.steps)


def logits_many(
    inners: Sequence[InnerProblem],
    thetas: Sequence[Parameters],
    images: Tensor,
    engine: str = "auto",
    workers: int | None = None,
) -> Tensor:
    """Class scores [len(inners), M, way] of the same query images at each θ, without a graph.

    Normalisation (β, s), centring and whose statistics (the query's, or the support's at θ) are those of each problem.
    """

    @torch.no_grad()
    def one(pair: tuple[InnerProblem, Parameters]) -> Tensor:
        inner, theta = pair
        reference = inner.reference()
        if _uses_engine(
            engine,
            autograd_functions.obstacle(inner.body, theta, inner.norm, _sets(images, reference)),
        ):
            return autograd_functions.logits(theta, images, inner.norm, inner.centre, reference)
        return inner.query_logits(theta, images)

    pairs = list(zip(inners, thetas, strict=True))
    return torch.stack(
        [one(pairs[0])] if len(pairs) == 1 and workers is None else map_tasks(one, pairs, workers)
    )


# ---------------------------------------------------------------------------------------------- which way, and checks
def _uses_engine(engine: str, obstacle: str | None) -> bool:
    if engine not in ("auto", "engine", "autograd"):
        raise AnyshotError(
            f"engine={engine!r} is not known; expected 'auto', 'engine' or 'autograd'."
        )
    if engine == "autograd" or obstacle is None:
        return engine != "autograd"
    if engine == "engine":
        raise AnyshotError(
            f"The engine cannot do this: {obstacle}. Use engine='auto' or 'autograd'."
        )
    if obstacle not in _said:
        _said.add(obstacle)
        log.warning("The engine steps aside for autograd (slower, same numbers): %s.", obstacle)
    return False


def _sets(images: Tensor, reference: Tensor | None) -> list[Tensor]:
    return [images] if reference is None else [images, reference]


def _checked(body: Features, theta: Parameters, images: Tensor, labels: Tensor) -> Tensor:
    """The labels as int64; a sentence for what cannot be."""
    missing = [
        n
        for n in (conv4.CONV_WEIGHTS if body is conv4.features else ()) + HEAD_PARAMETERS
        if n not in theta
    ]
    if missing:
        raise AnyshotError(
            f"θ has no {', '.join(missing)}; a body's start() and zero_head() make all parameters."
        )
    if labels.is_floating_point() or labels.shape != images.shape[:1]:
        kind = str(labels.dtype).removeprefix("torch.")
        raise AnyshotError(
            f"Labels are {kind} {list(labels.shape)}, but should be class numbers (int64), one for each of "
            f"{len(images)} images."
        )
    way = len(theta["head_bias"])
    low, high = (int(t) for t in labels.aminmax())
    if not 0 <= low <= high < way:
        raise AnyshotError(
            f"Labels are from {low} to {high}, but the head's {way} classes are 0 to {way - 1}."
        )
    return labels.long()
