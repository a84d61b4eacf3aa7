"""Refuse bodies whose features depend on chance, or on other images where they must not.

A body that is a function may only normalise with the ``norm`` that it is given: anyshot decides
which images give the statistics. Batch norms and dropout that it calls itself are out of its
control. A body that is made of a module has been converted, but may compute such things by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.core.registry import BODIES
from anyshot.core.settings import MethodSettings
from anyshot.models.module_features import LAYER_NAME, ModuleFeatures
from anyshot.models.network import Body, Features, Parameters

REFERENCE = 4  # images that give the batch statistics in the check
TOLERANCE = 1e-3  # relative; rounding with other batch sizes is 1e-6
FUNCTIONS = "torch.nn.functional"
UNKNOWN = "by a computation of its own"


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

    def calls(count: int) -> list[_Call]:
        """The layers of a call with the first ``count`` images, and the whole body at the end."""
        with _record_layers() as layers:
            output = body.features(theta, norm, images[:count])
        return [*layers, _Call(UNKNOWN, [images[:count]], [output])]

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
    return isinstance(features, FunctionType) and features.__module__.startswith("anyshot.")


def _name(features: Features) -> str:
    """The name of a module or function, if the settings do not name the body."""
    named = type(features.template) if isinstance(features, ModuleFeatures) else features
    return getattr(named, "__qualname__", repr(named))


@dataclass(frozen=True)
class _Call:
    """A call of a layer."""

    layer: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]


def _first_difference(first: Sequence[_Call], second: Sequence[_Call], count: int) -> str | None:
    """The first layer that gives the same image other outputs; None if the body does not.

    The second call has the first ``count`` images of the first one. A layer whose inputs differ
    already is not to blame.
    """
    if not _differ(first[-1].outputs, second[-1].outputs, count):
        return None
    return _describe(
        one
        for one, two in zip(first, second, strict=False)
        if one.layer == two.layer
        and not _differ(one.inputs, two.inputs, count)
        and _differ(one.outputs, two.outputs, count)
    )


def _describe(guilty: Iterable[_Call]) -> str:
    """The innermost function of torch.nn, and the innermost module that it belongs to."""
    names: list[str] = []
    for call in guilty:
        names.append(call.layer)
        if not call.layer.startswith(FUNCTIONS):
            break
    inner = [name for name in names[:1] + names[-1:] if name != UNKNOWN]
    return " in ".join(dict.fromkeys(inner)) or UNKNOWN


def _differ(first: Iterable[Any], second: Iterable[Any], count: int) -> bool:
    """Whether the image after the reference images has other values in two lists of tensors."""
    for a, b in zip(first, second, strict=False):
        if not isinstance(a, Tensor) or not isinstance(b, Tensor) or not a.is_floating_point():
            continue
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
    with torch.random.fork_rng(devices=[]), _record_layers() as layers:
        output = body.features(leaves, norm, images.requires_grad_())
        try:
            _differentiate_twice(output, [*leaves.values()])
        except RuntimeError as error:
            layer = _describe(call for call in layers if _fails(call))
            raise CodeError(
                f"The body {name!r} has no second derivative ({layer}; torch: {error}); use "
                "--order 1, or replace that layer."
            ) from error


def _fails(call: _Call) -> bool:
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


@contextmanager
def _record_layers() -> Iterator[list[_Call]]:
    """Collect the modules and the functions of torch.nn that are called, in order of their end."""
    calls: list[_Call] = []

    def record(module: nn.Module, inputs: Any, output: Any) -> None:
        layer = getattr(module, LAYER_NAME, repr(module))
        calls.append(_Call(layer, tree_leaves(inputs), tree_leaves(output)))

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            output = function(*args, **(kwargs or {}))
            if getattr(function, "__module__", "") == FUNCTIONS:
                layer = f"{FUNCTIONS}.{function.__name__}"
                calls.append(_Call(layer, tree_leaves((args, kwargs)), tree_leaves(output)))
            return output

    handle = register_module_forward_hook(record)
    try:
        with Functions():
            yield calls
    finally:
        handle.remove()
