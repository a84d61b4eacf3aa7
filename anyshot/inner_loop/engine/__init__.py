"""The engine: Conv4's gradients and their derivatives by hand-derived passes; see docs/engine.md.

Read in this order: ``network`` (the whole net), ``blocks`` (its layers), ``torch_ops`` (the
operations on images), ``numba_ops`` (the same operations as compiled kernels), and
``autograd_functions`` (what autograd sees). May import ``core`` and ``models``.
"""
