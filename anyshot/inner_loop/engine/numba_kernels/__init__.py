"""Kernels compiled by Numba. The compiled code is cached until a file in this folder changes."""
