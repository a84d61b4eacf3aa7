"""The inner loop: the update rule and the support gradient, by autograd or by the engine.

The engine (``engine/``) computes gradients of Conv4 and their derivatives by hand-derived passes.
This package may import ``core`` and ``models``.
"""

from anyshot.inner_loop.adaptation import (
    adapt,
    adapt_many,
    logits_many,
    query_cross_entropy,
    query_loss,
    support_gradient,
)
from anyshot.inner_loop.dispatch import cross_entropy, features, gradient
from anyshot.inner_loop.functional import call_module, loss_gradient
from anyshot.inner_loop.problem import InnerProblem
from anyshot.inner_loop.update_rule import update

__all__ = [
    "InnerProblem", "adapt", "adapt_many", "call_module", "cross_entropy", "features", "gradient",
    "logits_many", "loss_gradient", "query_cross_entropy", "query_loss", "support_gradient",
    "update",
]  # fmt: skip
