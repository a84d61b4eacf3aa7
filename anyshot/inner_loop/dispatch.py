"""Gradient, cross-entropy and features of a network, by the engine or by autograd.

``engine="auto"`` uses the engine where it can and autograd elsewhere, with one log line for each
reason. ``"engine"`` and ``"autograd"`` insist on one of the two.
"""

from __future__ import annotations

from itertools import repeat

from torch import Tensor

from anyshot.core.errors import SettingsError
from anyshot.inner_loop import autograd
from anyshot.inner_loop.engine import autograd_functions
from anyshot.inner_loop.engine.parameters import unsupported_reason
from anyshot.inner_loop.fallback import fall_back_to_autograd
from anyshot.inner_loop.module_gradient import module_gradient
from anyshot.models.bodies import conv4
from anyshot.models.derived_features import DerivedFeatures
from anyshot.models.module_features import ModuleFeatures
from anyshot.models.network import (
    HEAD_PARAMETERS,
    Features,
    Head,
    Norm,
    Parameters,
    embed,
    linear_head,
)
from anyshot.models.network import logits as network_logits


def gradient(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    weights: Tensor,
    norm: Norm,
    *,
    centre: bool = False,
    body: Features = conv4.features,
    head: Head = linear_head,
    engine: str = "auto",
) -> tuple[Parameters, Tensor]:
    """Gradient of the support loss, g = ∇_θ Σ_n w_n CE_n, and the loss itself.

    Both are differentiable in θ, w, β and s. So any update rule written in plain torch around g has
    exact second-order meta-gradients at the engine's speed. Inside ``torch.no_grad()`` there is no
    graph.

    Parameters
    ----------
    theta : dict of str to Tensor
        θ, all parameters of body and head.
    images : Tensor, float [N, channels, height, width]
        What depends on the images alone is cached for this tensor: pass the same one at each step.
    labels : Tensor, int64 [N]
        Class numbers.
    weights : Tensor, float [N]
        w_n.
    norm : Norm
        Normalisations, with shift β and scale s.
    centre : bool
        Whether features are centred before the head.
    body : callable
        (θ, norm, images) → features [n, width].
    head : callable
        (θ, features) → class scores [n, way]. Default: linear.
    engine : {"auto", "engine", "autograd"}
        What computes the gradient.

    Returns
    -------
    g : dict of str to Tensor
        One gradient for each entry of ``theta``.
    loss : Tensor, []
        Σ_n w_n CE_n.

    Raises
    ------
    SettingsError
        If shapes, labels or parameter names do not fit, or the required engine cannot do this.

    Examples
    --------
    The engine in place of ``higher``: two steps of a clipped update rule, the query loss after
    them, and its exact gradients with respect to the initialisation and the step size.

    >>> import torch
    >>> import anyshot
    >>> rng = torch.Generator().manual_seed(0)
    >>> body = anyshot.create_body("conv4", (32, 32))
    >>> start = {name: t.requires_grad_() for name, t in body.init_parameters(rng, "he").items()}
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

    :func:`anyshot.update` implements the rule θ − A ∘ g.
    """
    labels = _check_labels(body, head, theta, images, labels)
    if weights.shape != labels.shape:
        raise SettingsError(
            f"The weights have the shape {list(weights.shape)}; expected one for each of "
            f"{len(labels)} images."
        )
    reason = _other_head(head) or unsupported_reason(body, theta, norm, [images], weights)
    if _use_engine(engine, reason):
        return autograd_functions.gradient(theta, images, labels, weights, norm, centre, engine)
    # a head of one's own may use other tensors than θ, which have to stay in the graph
    if isinstance(body, ModuleFeatures) and head is linear_head and engine != "autograd":
        return module_gradient(theta, images, labels, weights, norm, centre, body)
    return autograd.gradient(theta, images, labels, weights, norm, centre, body, head)


def cross_entropy(
    theta: Parameters,
    images: Tensor,
    labels: Tensor,
    norm: Norm,
    *,
    centre: bool = False,
    reference: Tensor | None = None,
    body: Features = conv4.features,
    head: Head = linear_head,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each image at θ, and the class scores.

    Parameters
    ----------
    theta, images, labels, norm, centre, body, head, engine
        As for :func:`anyshot.gradient`.
    reference : Tensor, float [R, channels, height, width], optional
        Images whose batch statistics normalise ``images``. By default ``images`` has its own.

    Returns
    -------
    losses : Tensor, float [N]
        CE_n, differentiable in θ, β and s.
    scores : Tensor, float [N, way]
        Class scores, without a graph.

    Examples
    --------
    >>> import torch
    >>> import anyshot
    >>> body = anyshot.create_body("conv4", (32, 32))
    >>> theta = body.init_parameters(torch.Generator().manual_seed(0), "he")
    >>> theta |= anyshot.zero_head(5, body.width, torch.zeros(()))
    >>> images, labels = torch.rand(3, 3, 32, 32), torch.tensor([0, 1, 2])
    >>> losses, scores = anyshot.cross_entropy(theta, images, labels, body.norm())
    >>> losses, scores.shape  # a zero head: log 5 for each image
    (tensor([1.6094, 1.6094, 1.6094]), torch.Size([3, 5]))
    """
    labels = _check_labels(body, head, theta, images, labels)
    reason = _other_head(head) or unsupported_reason(
        body, theta, norm, _with_reference(images, reference)
    )
    if _use_engine(engine, reason):
        return autograd_functions.cross_entropy(
            theta, images, labels, norm, centre, reference, engine
        )
    scores = network_logits(body, theta, norm, images, centre, reference, head)
    return autograd.cross_entropies(scores, labels), scores.detach()


def features(
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool = False,
    reference: Tensor | None = None,
    engine: str = "auto",
    body: Features = conv4.features,
) -> Tensor:
    """Features [n, width] of images, as :func:`anyshot.models.network.embed` computes them.

    They are differentiable in θ, β and s.
    """
    if isinstance(body, DerivedFeatures):
        return _derived_features(theta, norm, images, centre, reference, engine, body)
    reason = unsupported_reason(body, theta, norm, _with_reference(images, reference))
    if _use_engine(engine, reason):
        return autograd_functions.features(theta, norm, images, centre, reference, engine)
    return embed(body, theta, norm, images, centre, reference)


def _derived_features(
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool,
    reference: Tensor | None,
    engine: str,
    body: DerivedFeatures,
) -> Tensor:
    """Features that are a function of those of another body, which the engine may compute."""

    def compute(x: Tensor, statistics_of: Tensor | None) -> Tensor:
        others = repeat(None) if statistics_of is None else body.views(statistics_of)
        pairs = zip(body.views(x), others, strict=False)
        views = [features(theta, norm, a, False, b, engine, body.base) for a, b in pairs]
        return body.combine(views)

    f = compute(images, reference)
    if not centre:
        return f
    return f - (f if reference is None else compute(reference, None)).mean(0)


def logits(
    theta: Parameters,
    norm: Norm,
    images: Tensor,
    centre: bool = False,
    reference: Tensor | None = None,
    engine: str = "auto",
    body: Features = conv4.features,
    head: Head = linear_head,
) -> Tensor:
    """Class scores [n, way] of images; by the engine they have no graph."""
    reason = _other_head(head) or unsupported_reason(
        body, theta, norm, _with_reference(images, reference)
    )
    if _use_engine(engine, reason):
        return autograd_functions.logits(theta, images, norm, centre, reference)
    return network_logits(body, theta, norm, images, centre, reference, head)


def _use_engine(engine: str, reason: str | None) -> bool:
    """Whether the engine computes this; ``reason`` says why it cannot."""
    if engine not in ("auto", "engine", "autograd"):
        raise SettingsError(f"engine={engine!r} is unknown; use 'auto', 'engine' or 'autograd'.")
    if engine == "autograd":
        return False
    if reason is not None:
        fall_back_to_autograd(reason, engine)
    return reason is None


def _with_reference(images: Tensor, reference: Tensor | None) -> list[Tensor]:
    """The images, and the reference images if there are any."""
    return [images] if reference is None else [images, reference]


def _other_head(head: Head) -> str | None:
    """Why the engine cannot use this head; None if it can."""
    return None if head is linear_head else "the head is not linear"


def _check_labels(
    body: Features, head: Head, theta: Parameters, images: Tensor, labels: Tensor
) -> Tensor:
    """The labels as int64, after a check of parameter names, shapes and class numbers."""
    expected = conv4.CONV_WEIGHTS if body is conv4.features else ()
    expected += HEAD_PARAMETERS if head is linear_head else ()
    missing = [name for name in expected if name not in theta]
    if missing:
        raise SettingsError(
            f"θ has no {', '.join(missing)}; Body.init_parameters() and zero_head() create all "
            "parameters."
        )
    if labels.is_floating_point() or labels.shape != images.shape[:1]:
        dtype = str(labels.dtype).removeprefix("torch.")
        raise SettingsError(
            f"The labels are {dtype} {list(labels.shape)}; expected a class number (int64) for "
            f"each of {len(images)} images."
        )
    # torch.func.vmap does not allow to look at values; only a linear head has this bias
    if autograd.transforms_active() or head is not linear_head:
        return labels.long()
    way = len(theta["head_bias"])
    low, high = (int(t) for t in labels.aminmax())
    if not 0 <= low <= high < way:
        raise SettingsError(
            f"The labels are from {low} to {high}; the head has {way} classes, 0 to {way - 1}."
        )
    return labels.long()
