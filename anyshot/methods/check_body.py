"""Refuse bodies whose features depend on chance, or on other images where they must not.

A body may only normalise with the ``norm`` that it is given: anyshot decides which images give the
statistics. Batch norms and dropout of the body's own are out of its control, whatever ``eval()``
says, because a body is a function and not a submodule of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.models.network import Body

REFERENCE = 4  # images that give the batch statistics in the check
TOLERANCE = 1e-3  # relative; rounding with other batch sizes is 1e-6


def check_body(body: Body, name: str, transductive: bool) -> None:
    """Compute features of a few random images in several ways and compare them.

    Raises
    ------
    CodeError
        If the features are random, or if they depend on other query images although the method is
        not transductive. The message names the layer.
    """
    generator = torch_rng(0, "check body")
    theta = body.init_parameters(generator, "he")
    images = torch.rand(2 * REFERENCE, body.image_channels, *body.image_size, generator=generator)
    norm = replace(body.norm(), reference_size=REFERENCE)

    def features(count: int) -> Tensor:
        """Features of the first image after the reference images, in a batch of ``count``."""
        return body.features(theta, norm, images[:count])[REFERENCE]

    with torch.no_grad(), torch.random.fork_rng(devices=[]), _record_layers() as layers:
        first, second = features(2 * REFERENCE), features(2 * REFERENCE)
        alone = features(REFERENCE + 1)
    if _differ(first, second):
        raise CodeError(
            f"The features of the body {name!r} are random ({_describe(layers, 'dropout')}), so "
            "that predictions would change from call to call; remove that layer from the body."
        )
    if not transductive and _differ(first, alone):
        raise CodeError(
            f"The features of the body {name!r} depend on the other images of the batch "
            f"({_describe(layers, 'norm')}), but the method is not transductive "
            "(--no-transductive). Normalise with the argument norm of the body, "
            "or use --transductive."
        )


def _differ(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() > TOLERANCE * a.abs().max())


def _describe(layers: Sequence[str], word: str) -> str:
    names = dict.fromkeys(layer for layer in layers if word in layer.lower())
    return ", ".join(names) or "by a computation of its own"


@contextmanager
def _record_layers() -> Iterator[list[str]]:
    """Collect the modules and the functions that are called, by name."""
    layers: list[str] = []

    def record(module: nn.Module, inputs: Any) -> None:
        layers.append(repr(module))

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if getattr(function, "__module__", "") == "torch.nn.functional":
                layers.append(f"torch.nn.functional.{function.__name__}")
            return function(*args, **(kwargs or {}))

    handle = register_module_forward_pre_hook(record)
    try:
        with Functions():
            yield layers
    finally:
        handle.remove()
