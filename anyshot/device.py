"""Where the numbers are computed. A run depends on it by rounding alone: it may go on, and be tested, elsewhere."""

from __future__ import annotations

import torch

from anyshot.errors import AnyshotError


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name, if it is there. ``auto`` is CUDA where there is one, and the CPU otherwise.

    Apple's ``mps`` is taken only when asked for: not every second derivative is to be had there.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # an AssertionError where torch was built without CUDA
        reason = str(error).splitlines()[0].rstrip(".")
        raise AnyshotError(f"The device {name!r} is not to be had here ({reason}); use auto or cpu.") from error
