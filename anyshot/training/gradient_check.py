"""Notices parameters that no meta-gradient reaches, before a long run trains nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from torch import Tensor

from anyshot.methods import Method

log = logging.getLogger(__name__)

FIRST_ITERATIONS = 5  #: after which the first warning comes
SILENT_ITERATIONS = 200  #: without a gradient in a row, after which a parameter is named
NAMED = 4  #: parameters that a warning names


class GradientCheck:
    """Counts the iterations since each parameter last had a gradient, and warns.

    Once after the first iterations, about parameters that had none at all. Later about each
    parameter that gets none any more: the ReLUs behind it may be zero for all images, from which
    no gradient brings them back.

    The bias of a convolution cancels in the batch normalisation after it. Its gradient and that of
    its learning rate are always zero, so they are left out.
    """

    def __init__(self, method: Method) -> None:
        biases = {layer.bias for layer in method.body.layers if layer.bias}
        self.names = [name for name, _ in method.named_parameters()]
        #: iterations since the last gradient, of every parameter that is checked
        self.silent = {name: 0 for name in self.names if name.partition(".")[2] not in biases}
        self.warned: set[str] = set()
        self.iterations = 0

    def add(self, gradients: Sequence[Tensor], last: bool) -> None:
        """The gradients of one iteration, in the order of the method's parameters."""
        self.iterations += 1
        for name, gradient in zip(self.names, gradients, strict=True):
            if name in self.silent:
                self.silent[name] = 0 if bool(gradient.count_nonzero()) else self.silent[name] + 1
        first = min(self.iterations, FIRST_ITERATIONS)
        if self.iterations == FIRST_ITERATIONS or (last and self.iterations == first):
            self.warn(first)
        elif self.iterations > FIRST_ITERATIONS:
            self.warn(SILENT_ITERATIONS)

    def warn(self, iterations: int) -> None:
        """Warn once about each parameter that had no gradient for so many iterations."""
        missing = [
            name
            for name, silent in self.silent.items()
            if silent >= iterations and name not in self.warned
        ]
        if missing:
            self.warned.update(missing)
            log.warning("%s", self.sentence(missing, iterations))

    def sentence(self, missing: Sequence[str], iterations: int) -> str:
        """Which parameters have had no gradient for so many iterations."""
        names = ", ".join(missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
        if len(missing) == len(self.silent):
            return (
                f"The meta-gradient has been zero for all parameters ({names}) in the last "
                f"{iterations} iterations: nothing is being learned. Check the method's objective "
                "and its initial head."
            )
        return (
            f"The meta-gradient has been zero for {len(missing)} of {len(self.silent)} parameters "
            f"({names}) in the last {iterations} iterations: they are not being learned."
        )
