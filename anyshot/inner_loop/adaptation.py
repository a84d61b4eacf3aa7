"""Inner problems: adapt them, and compute the query loss and class scores after adaptation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from anyshot.core.parallel.threads import map_tasks
from anyshot.inner_loop import dispatch
from anyshot.inner_loop.focal import focal_slope
from anyshot.inner_loop.problem import InnerProblem
from anyshot.inner_loop.update_rule import update
from anyshot.models.network import Parameters
from anyshot.models.norm import FIRST_STEP_CALL, QUERY_CALL


def support_gradient(
    inner: InnerProblem, theta: Parameters, engine: str = "auto", step: int = 0
) -> Parameters:
    """Gradient of the problem's support loss at θ, on the images that this step sees."""
    images, labels, weights = inner.view(step), inner.labels, inner.weights
    norm = inner.norm.for_call(FIRST_STEP_CALL + step)
    theta, head = inner.adjust_logits(theta)
    how: dict[str, Any] = {"centre": inner.centre, "body": inner.body, "head": head}
    how["engine"] = _head_engine(inner, engine)
    if inner.focal:
        losses, _ = dispatch.cross_entropy(theta, images, labels, norm, **how)
        weights = weights * focal_slope(losses, inner.focal)
    g, _ = dispatch.gradient(theta, images, labels, weights, norm, **how)
    return g


def query_cross_entropy(
    inner: InnerProblem, theta: Parameters, images: Tensor, labels: Tensor, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of the query set at θ, and its class scores [M, way] without a graph."""
    losses, scores = dispatch.cross_entropy(
        theta,
        inner.network_input(images),
        labels,
        inner.norm.for_call(QUERY_CALL),
        centre=inner.centre,
        reference=inner.reference(),
        body=inner.body,
        head=inner.head,
        engine=_head_engine(inner, engine),
    )
    return losses.mean(), scores


def _head_engine(inner: InnerProblem, engine: str) -> str:
    """Autograd for a head on features; the engine is for Conv4."""
    return engine if inner.frozen is None else "autograd"


def query_loss(
    inner: InnerProblem, images: Tensor, labels: Tensor, order: int = 2, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Adapt to the support set and return the query loss.

    Parameters
    ----------
    inner : InnerProblem
        The problem, with the support set.
    images : Tensor, float [M, channels, height, width]
        Query images.
    labels : Tensor, int64 [M]
        Their class numbers.
    order : {2, 1, 0}
        2 is exact. 1 treats the inner gradients as constants: β and s get a gradient through the
        query alone, w gets none. 0 adapts without a graph: only β and s get a gradient.
    engine : {"auto", "engine", "autograd"}
        What computes the gradients.

    Returns
    -------
    loss : Tensor, []
        Mean cross-entropy of the query set at θ_K, differentiable in θ_0, A, w, β and s.
    scores : Tensor, float [M, way]
        Class scores of the query set, without a graph.

    Examples
    --------
    >>> import anyshot
    >>> rng = torch.Generator().manual_seed(0)
    >>> body = anyshot.create_body("conv4", (32, 32))
    >>> theta = body.init_parameters(rng, "he") | anyshot.zero_head(2, body.width, torch.zeros(()))
    >>> rates = {name: torch.tensor(0.1, requires_grad=True) for name in theta}
    >>> images, labels = torch.rand(4, 3, 32, 32, generator=rng), torch.tensor([0, 0, 1, 1])
    >>> problem = anyshot.InnerProblem(
    ...     images=images, labels=labels, weights=torch.full((4,), 1 / 4), theta=theta, rates=rates,
    ...     norm=body.norm(), steps=2,
    ... )
    >>> loss, scores = anyshot.query_loss(problem, images, labels)
    >>> loss.backward()
    >>> scores.shape, rates["conv1_weight"].grad.shape
    (torch.Size([4, 2]), torch.Size([]))
    """
    theta = _adapted_parameters(inner, order, engine)
    return query_cross_entropy(inner, theta, images, labels, engine)


def _adapted_parameters(inner: InnerProblem, order: int, engine: str) -> Parameters:
    """θ_K."""

    def gradient(theta: Parameters, step: int) -> Parameters:
        return support_gradient(inner, theta, engine, step)

    return update(inner.theta, gradient, inner.rates, inner.steps, order)


def adapt(inner: InnerProblem, engine: str = "auto") -> Parameters:
    """Adapt to the support set and return θ_K without a graph.

    Parameters
    ----------
    inner : InnerProblem
        The problem.
    engine : {"auto", "engine", "autograd"}
        What computes the gradients.

    Returns
    -------
    dict of str to Tensor
        θ_K. :class:`InnerProblem` has an example.
    """
    return _adapted_parameters(inner, 0, engine)


def adapt_many(
    inners: Sequence[InnerProblem],
    engine: str = "auto",
    workers: int | None = None,
    rule: Callable[[InnerProblem], Parameters] | None = None,
) -> list[Parameters]:
    """θ_K of several problems without graphs, for example one for each sample of φ.

    ``workers`` problems are adapted at the same time, by :func:`adapt` or by ``rule``. Problems
    with the same image tensors share what the engine computes from the images alone.
    """
    rule = rule or (lambda inner: adapt(inner, engine))
    if len(inners) == 1 and workers is None:  # a single problem can use all threads
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

    Each problem has its own normalisation, centring and choice of batch statistics.
    """

    @torch.no_grad()
    def logits(pair: tuple[InnerProblem, Parameters]) -> Tensor:
        inner, theta = pair
        return dispatch.logits(
            theta,
            inner.norm,
            inner.network_input(images),
            inner.centre,
            inner.reference(),
            _head_engine(inner, engine),
            inner.body,
            inner.head,
        )

    pairs = list(zip(inners, thetas, strict=True))
    if len(pairs) == 1 and workers is None:
        return logits(pairs[0])[None]
    return torch.stack(map_tasks(logits, pairs, workers))
