"""A fast implementation of the inner loop's gradients for Conv4, by torch operators or Numba kernels."""
