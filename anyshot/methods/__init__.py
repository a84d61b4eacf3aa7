"""Meta-learning methods: MAML, Meta-SGD, MT-net, ABML, ProtoNet, Proto-MAML and TAML, a file each.

``base`` holds what they share. ``balancing`` and ``task_encoder`` are TAML's variables (ω, γ, z) and
their posterior. ``create`` makes a method from its settings. The package imports ``core``, ``data``,
``models`` and ``inner_loop``.
"""

from anyshot.core.registry import METHODS
from anyshot.methods.abml import ABML
from anyshot.methods.base import GradientMethod, Method, Objective
from anyshot.methods.create import create_method, method_class
from anyshot.methods.maml import MAML
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.mt_net import MTNet
from anyshot.methods.predictor import Predictor
from anyshot.methods.proto_maml import ProtoMAML
from anyshot.methods.protonet import ProtoNet
from anyshot.methods.taml import TAML

__all__ = [
    "ABML", "MAML", "METHODS", "TAML", "GradientMethod", "MTNet", "MetaSGD", "Method", "Objective",
    "Predictor", "ProtoMAML", "ProtoNet", "create_method", "method_class",
]  # fmt: skip
