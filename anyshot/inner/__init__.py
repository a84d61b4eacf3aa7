"""What happens inside a task: the update rule (:mod:`.update`) and its fast, hand-derived twin (:mod:`.engine`).

Everybody calls the functions of this file. ``engine="auto"`` takes the engine where it can and autograd where it
cannot, with one line in the log for each reason; ``"engine"`` and ``"autograd"`` insist.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from anyshot.bodies import conv4
from anyshot.errors import AnyshotError
from anyshot.inner import attach, update
from anyshot.inner import engine as _engine
from anyshot.inner.blocks import Pictures
from anyshot.inner.update import Inner, weighted_loss
from anyshot.network import Features, Norm, Parameters, embed
from anyshot.parallel import alone, map_tasks

__all__ = [
    "Inner", "adapt", "adapt_many", "features", "logits_many", "query_loss", "step_aside", "uses_engine",
    "weighted_loss",
]  # fmt: skip

log = logging.getLogger(__name__)
_said: set[str] = set()


def uses_engine(inner: Inner, images: Tensor | None = None, engine: str = "auto") -> bool:
    """Whether the engine does this problem (``images``: the query's, if any). Falling back is said once a reason."""
    return _chosen(engine, attach.obstacle(inner, images))


def _chosen(engine: str, obstacle: str | None) -> bool:
    if engine not in ("auto", "engine", "autograd"):
        raise AnyshotError(f"engine={engine!r} is not known; expected 'auto', 'engine' or 'autograd'.")
    if engine == "autograd":
        return False
    if obstacle is None:
        return True
    if engine == "engine":
        raise AnyshotError(f"The engine cannot do this: {obstacle}. Use engine='auto' or 'autograd'.")
    step_aside(obstacle)
    return False


def step_aside(reason: str) -> None:
    """Say, once a reason, that autograd does what the engine cannot."""
    if reason not in _said:
        _said.add(reason)
        log.warning("The engine steps aside for autograd (slower, same numbers): %s.", reason)


def features(
    theta: Parameters, norm: Norm, images: Tensor, centre: bool = False, reference: Tensor | None = None,
    engine: str = "auto", body: Features = conv4.features,
) -> Tensor:  # fmt: skip
    """:func:`anyshot.network.embed`, differentiable once in θ, β and s; :func:`anyshot.network.embed` itself is
    differentiable as often as you like."""
    set_in_hand = images if reference is None else reference
    if _chosen(engine, attach.obstacle_in_body(body, theta, norm, set_in_hand, images)):
        return attach.features(theta, norm, images, centre, reference)
    return embed(body, theta, norm, images, centre, reference)


def query_loss(
    inner: Inner, images: Tensor, labels: Tensor, order: int = 2, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of the query set at θ_K and the query's logits [M, way] (detached).

    The loss is differentiable in θ_0 (head included), A, w, β and s. ``order`` 2 is exact; 1 treats the inner gradients
    as constants, so that β and s count only through the query and w not at all; 0 leaves β and s alone.
    """
    if uses_engine(inner, images, engine):
        return attach.query_loss(inner, images, labels, order)
    return update.query_loss(inner, images, labels, order)


def adapt(inner: Inner, engine: str = "auto") -> Parameters:
    """θ_K without a graph."""
    return adapt_many([inner], engine)[0] if uses_engine(inner, None, engine) else update.adapt(inner)


def adapt_many(inners: Sequence[Inner], engine: str = "auto", workers: int | None = None) -> list[Parameters]:
    """θ_K of several problems without graphs, for instance one for each sample of φ, on ``workers`` cores.

    Problems whose ``images`` are the same tensor share what depends on the images alone (the patch moments).
    """
    shared = _Shared()

    def one(inner: Inner) -> Parameters:
        if not uses_engine(inner, None, engine):
            return update.adapt(inner)
        with alone(), torch.no_grad():
            problem = attach.problem(inner)
            problem.pictures = shared.pictures(problem.ops, inner.images)
            return attach.parameters(inner, _engine.inner_loop(problem))

    if len(inners) == 1 and workers is None:  # nothing to share out: all threads for the one there is
        return [one(inners[0])]
    return map_tasks(one, inners, workers, size=lambda inner: len(inner.labels) * inner.steps)


def logits_many(
    inners: Sequence[Inner],
    thetas: Sequence[Parameters],
    images: Tensor,
    engine: str = "auto",
    workers: int | None = None,
) -> Tensor:
    """Class scores [len(inners), M, way] of the same query images at each θ, without a graph.

    Normalisation (β, s), centring and whose statistics (the query's, or the support's at θ) are those of each problem.
    """
    shared = _Shared()

    def one(pair: tuple[Inner, Parameters]) -> Tensor:
        inner, theta = pair
        if not uses_engine(inner, images, engine):
            with torch.no_grad():
                return inner.query_logits(theta, images)
        with alone(), torch.no_grad():
            problem = attach.problem(attach.at(inner, theta))
            if not inner.transductive:
                problem.pictures = shared.pictures(problem.ops, inner.images)
            return _engine.query(problem, problem.theta, shared.pictures(problem.ops, images)).logits

    pairs = list(zip(inners, thetas, strict=True))
    return torch.stack([one(pairs[0])] if len(pairs) == 1 and workers is None else map_tasks(one, pairs, workers))


class _Shared:
    """What depends on images alone, made once for each tensor by whichever worker comes first."""

    def __init__(self) -> None:
        self.lock, self.made = threading.Lock(), dict[tuple[ModuleType, int], Pictures]()

    def pictures(self, ops: ModuleType, images: Tensor) -> Pictures:
        with self.lock:
            key = (ops, id(images))
            if key not in self.made:
                self.made[key] = Pictures(ops, images.detach())
            return self.made[key]
