"""The loops that Numba compiles, for :mod:`anyshot.inner.loops`; machine code is kept until a file in here changes."""
