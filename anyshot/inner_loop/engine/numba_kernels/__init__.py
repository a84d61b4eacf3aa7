"""Kernels compiled by Numba. The machine code is cached until a file in this folder changes."""
