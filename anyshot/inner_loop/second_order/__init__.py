"""Operators whose second derivatives are fast, for :func:`anyshot.loss_gradient`.

torch differentiates a convolution twice by convolutions with kernels as large as the image, and
norms and GELU by some ten to twenty passes over memory. Inside :class:`FastSecondOrder` these
operators are replaced by functions with the same values and derivatives.
"""

from anyshot.inner_loop.second_order.mode import FastSecondOrder
from anyshot.inner_loop.second_order.trace import Kept, Trace

__all__ = ["FastSecondOrder", "Kept", "Trace"]
