"""Notices parameters that no meta-gradient reaches, before a long run trains nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from torch import Tensor

from anyshot.methods import Method

log = logging.getLogger(__name__)

FIRST_ITERATIONS = 5  #: after which the warning comes
NAMED = 4  #: parameters that the warning names


class GradientCheck:
    """Collects which parameters get a gradient in the first iterations, and warns about the others.

    The bias of a convolution cancels in the batch normalisation after it. Its gradient and that of
    its learning rate are always zero, so they are left out.
    """

    def __init__(self, method: Method) -> None:
        biases = {layer.bias for layer in method.body.layers if layer.bias}
        self.names = [name for name, _ in method.named_parameters()]
        self.missing = {name for name in self.names if name.partition(".")[2] not in biases}
        self.checked = len(self.missing)
        self.iterations = 0

    def add(self, gradients: Sequence[Tensor], last: bool) -> None:
        """The gradients of one iteration, in the order of the method's parameters."""
        if self.iterations >= FIRST_ITERATIONS:
            return
        self.iterations += 1
        for name, gradient in zip(self.names, gradients, strict=True):
            if name in self.missing and bool(gradient.count_nonzero()):
                self.missing.discard(name)
        if self.missing and (self.iterations == FIRST_ITERATIONS or last):
            self.iterations = FIRST_ITERATIONS
            log.warning("%s", self.sentence())

    def sentence(self) -> str:
        """Which parameters have had no gradient."""
        missing = [name for name in self.names if name in self.missing]
        names = ", ".join(missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
        if len(missing) == self.checked:
            return (
                f"The meta-gradient is zero for all parameters in the first iterations ({names}): "
                "nothing is being learned. Check the method's objective and its initial head."
            )
        return (
            f"The meta-gradient is zero in the first iterations for {len(missing)} of "
            f"{self.checked} parameters ({names}): they are not being learned."
        )
