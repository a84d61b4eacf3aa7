"""Refuse bodies whose features depend on chance, or on other images where they must not.

A body that is a function may only normalise with the ``norm`` that it is given: anyshot decides
which images give the statistics. Batch norms and dropout that it calls itself are out of its
control. A body that is made of a module has been converted, but may compute such things by hand.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.core.registry import BODIES
from anyshot.core.settings import MethodSettings
from anyshot.models.derived_features import DerivedFeatures
from anyshot.models.layer_calls import (
    UNKNOWN,
    Call,
    describe,
    first_difference,
    record_calls,
    tensor_pairs,
)
from anyshot.models.module_features import ModuleFeatures
from anyshot.models.network import Body, Features, Parameters

REFERENCE = 4  # images that give the batch statistics in the check
TOLERANCE = 1e-3  # relative; rounding with other batch sizes is 1e-6


def check_body(body: Body, settings: MethodSettings, second_order: bool) -> None:
    """Compute features of a few random images in several ways and compare them.

    Bodies that come with anyshot are not checked.

    Raises
    ------
    CodeError
        If the features are random, if they depend on other query images although the method is not
        transductive, or if the method needs second derivatives that they do not have. The message
        names the layer.
    """
    if _comes_with_anyshot(body.features):
        return
    name = _name(body.features) if BODIES.is_builtin(settings.body) else settings.body
    generator = torch_rng(0, "check body")
    theta = body.init_parameters(generator, "he")
    images = torch.rand(2 * REFERENCE, body.image_channels, *body.image_size, generator=generator)
    norm = replace(body.norm(), reference_size=REFERENCE)

    def calls(count: int) -> list[Call]:
        """The layers of a call with the first ``count`` images, and the whole body at the end."""
        with record_calls() as layers:
            output = body.features(theta, norm, images[:count])
        return [*layers.finished, Call(UNKNOWN, [images[:count]], [output])]

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        first, second = calls(2 * REFERENCE), calls(2 * REFERENCE)
        alone = calls(REFERENCE + 1)
    if layer := _first_difference(first, second, 2 * REFERENCE):
        raise CodeError(
            f"The features of the body {name!r} are random ({layer}), so that predictions would "
            "change from call to call; remove that layer from the body."
        )
    if not settings.transductive and (layer := _first_difference(first, alone, REFERENCE + 1)):
        raise CodeError(
            f"The features of the body {name!r} depend on the other images of the batch "
            f"({layer}), but the method is not transductive (--no-transductive). Normalise with "
            "the argument norm of the body or with a batch norm of torch.nn, or use --transductive."
        )
    if second_order:
        _check_second_order(body, name, theta, images)


def _comes_with_anyshot(features: Features) -> bool:
    if isinstance(features, DerivedFeatures):
        return _comes_with_anyshot(features.base)
    return isinstance(features, FunctionType) and features.__module__.startswith("anyshot.")


def _name(features: Features) -> str:
    """The name of a module or function, if the settings do not name the body."""
    named = type(features.template) if isinstance(features, ModuleFeatures) else features
    return getattr(named, "__qualname__", repr(named))


def _first_difference(first: Sequence[Call], second: Sequence[Call], count: int) -> str | None:
    """The first layer that gives the same image other outputs; None if the body does not.

    The second call has the first ``count`` images of the first one.
    """
    differ = functools.partial(_differ, count=count)
    if not differ(first[-1].outputs, second[-1].outputs):
        return None
    return first_difference(first, second, differ)


def _differ(first: Iterable[Any], second: Iterable[Any], count: int) -> bool:
    """Whether the image after the reference images has other values in two lists of tensors."""
    for a, b in tensor_pairs(first, second):
        if a.dim() and len(a) == 2 * REFERENCE and len(b) == count:
            a, b = a[REFERENCE], b[REFERENCE]
        if a.shape == b.shape and a.numel() and (a - b).abs().max() > TOLERANCE * a.abs().max():
            return True
    return False


def _check_second_order(body: Body, name: str, theta: Parameters, images: Tensor) -> None:
    """Differentiate the features twice, in training mode."""
    noise = torch_rng(0, "check body")
    norm = replace(body.norm(), seed=body.draw_seed(noise))
    leaves = {key: value.requires_grad_() for key, value in theta.items()}
    with torch.random.fork_rng(devices=[]), record_calls() as layers:
        output = body.features(leaves, norm, images.requires_grad_())
        try:
            _differentiate_twice(output, [*leaves.values()])
        except RuntimeError as error:
            layer = describe(call for call in layers.finished if _fails(call))
            raise CodeError(
                f"The body {name!r} has no second derivative ({layer}; torch: {error}); use "
                "--order 1, or replace that layer."
            ) from error


def _fails(call: Call) -> bool:
    inputs = [t for t in call.inputs if isinstance(t, Tensor) and t.requires_grad]
    outputs = [t for t in call.outputs if isinstance(t, Tensor) and t.requires_grad]
    try:
        for output in outputs:
            _differentiate_twice(output, inputs)
    except RuntimeError:
        return True
    return False


def _differentiate_twice(output: Tensor, inputs: Sequence[Tensor]) -> None:
    if not inputs:
        return
    gradients = torch.autograd.grad(
        (output**2).sum(), inputs, create_graph=True, allow_unused=True, materialize_grads=True
    )
    total = torch.stack([(g**2).sum() for g in gradients]).sum()
    if total.requires_grad:
        torch.autograd.grad(total, inputs, allow_unused=True)
