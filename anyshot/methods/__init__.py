"""The methods by name, one short file each over the shared update rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anyshot.core.errors import AnyshotError
from anyshot.core.options import method_options
from anyshot.core.random import torch_rng
from anyshot.core.registry import METHODS
from anyshot.core.settings import MethodSettings
from anyshot.methods.abml import ABML
from anyshot.methods.base import GradientMethod, Method, Objective
from anyshot.methods.maml import MAML
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.mt_net import MTNet
from anyshot.methods.predictor import Predictor
from anyshot.methods.proto_maml import ProtoMAML
from anyshot.methods.protonet import ProtoNet
from anyshot.methods.taml import TAML
from anyshot.models.bodies import create_body

__all__ = [
    "ABML", "MAML", "METHODS", "TAML", "GradientMethod", "MTNet", "MetaSGD", "Method", "Objective",
    "Predictor", "ProtoMAML", "ProtoNet", "create_method",
]  # fmt: skip


def create_method(
    settings: MethodSettings, image_size: tuple[int, int] = (32, 32), seed: int = 0
) -> Method:
    """A method at its start.

    >>> create_method(MethodSettings(name="maml")).name
    'maml'
    """
    with _float32():
        body = create_body(settings.body, image_size, settings.channels)
        return method_class(settings)(settings, body, torch_rng(seed, "start"))


@contextmanager
def _float32() -> Iterator[None]:
    """Parameters and the numbers drawn for them are float32, whatever a program has made torch's default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def method_class(settings: MethodSettings) -> type[Method]:
    """The class of the method that is named, once it and its own settings are what they should be."""
    found = METHODS[settings.name]
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise AnyshotError(
            f"{settings.name!r} is no method; expected a class made from anyshot.Method."
        )
    method_options(found.Options, settings.options)
    return found
