"""Meta-learning methods, one file each: the seven of the paper and common baselines.

The paper's are MAML, Meta-SGD, MT-net, ABML, ProtoNet, Proto-MAML and TAML; the baselines are ANIL,
R2D2, SimpleShot and RFS. UNICORN-MAML is MAML here (see ``maml``).

``base``, ``gradient_method`` and ``embedding_method`` are the base classes. ``balancing`` and
``task_encoder`` are TAML's variables (ω, γ, z) and their posterior. ``create`` makes a method from
its settings. The package imports ``core``, ``data``, ``models`` and ``inner_loop``.
"""

from anyshot.core.registry import METHODS
from anyshot.methods.abml import ABML
from anyshot.methods.anil import ANIL
from anyshot.methods.base import Method, Objective
from anyshot.methods.create import create_method, method_class
from anyshot.methods.embedding_method import EmbeddingMethod
from anyshot.methods.ensemble import Ensemble
from anyshot.methods.gradient_method import GradientMethod
from anyshot.methods.maml import MAML
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.mt_net import MTNet
from anyshot.methods.predictor import Predictor
from anyshot.methods.proto_maml import ProtoMAML
from anyshot.methods.protonet import ProtoNet
from anyshot.methods.r2d2 import R2D2
from anyshot.methods.rfs import RFS
from anyshot.methods.simpleshot import SimpleShot
from anyshot.methods.taml import TAML

__all__ = [
    "ABML", "ANIL", "MAML", "METHODS", "R2D2", "RFS", "TAML", "EmbeddingMethod", "Ensemble",
    "GradientMethod",
    "MTNet", "MetaSGD", "Method", "Objective", "Predictor", "ProtoMAML", "ProtoNet", "SimpleShot",
    "create_method", "method_class",
]  # fmt: skip
