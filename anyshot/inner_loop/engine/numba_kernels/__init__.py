"""The loops that Numba compiles, for :mod:`anyshot.inner_loop.engine.numba_ops`; machine code is kept until a file in here changes."""
