"""The methods by name, one short file each over the shared update rule."""

from __future__ import annotations

from anyshot.bodies.conv4 import conv4
from anyshot.methods.abml import ABML
from anyshot.methods.base import GradientMethod, Method, Objective
from anyshot.methods.maml import MAML
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.mt_net import MTNet
from anyshot.methods.predictor import Predictor
from anyshot.methods.proto_maml import ProtoMAML
from anyshot.methods.protonet import ProtoNet
from anyshot.methods.taml import TAML
from anyshot.settings import MethodSettings
from anyshot.tasks import torch_rng

METHODS: dict[str, type[Method]] = {m.name: m for m in (MAML, MetaSGD, MTNet, ABML, ProtoNet, ProtoMAML, TAML)}

__all__ = [
    "ABML", "MAML", "METHODS", "TAML", "GradientMethod", "MTNet", "MetaSGD", "Method", "Objective",
    "Predictor", "ProtoMAML", "ProtoNet", "create_method",
]  # fmt: skip


def create_method(settings: MethodSettings, image_size: tuple[int, int] = (32, 32), seed: int = 0) -> Method:
    """A method at its start.

    >>> create_method(MethodSettings(name="maml")).name
    'maml'
    """
    return METHODS[settings.name](settings, conv4(image_size), torch_rng(seed, "start"))
