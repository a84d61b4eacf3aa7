"""Where the numbers are computed. A run depends on it by rounding alone: it may go on, and be tested, elsewhere."""

from __future__ import annotations

import torch

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import local_rank


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name, if it is there. ``auto`` is CUDA where there is one, and the CPU otherwise.

    Apple's ``mps`` is taken only when asked for: not every second derivative is to be had there. Of several ranks on a
    machine each has a GPU of its own.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    number, ranks = local_rank()
    if name == "cuda" and ranks > 1:
        there = torch.cuda.device_count()
        if 0 < there < ranks:
            raise AnyshotError(
                f"This machine has {there} GPUs for {ranks} ranks; start torchrun with --nproc-per-node {there}, or "
                "give --device cpu."
            )
        name = f"cuda:{number}"
    try:
        return torch.empty(0, device=name).device
    except (
        RuntimeError,
        AssertionError,
    ) as error:  # an AssertionError where torch was built without CUDA
        reason = str(error).splitlines()[0].rstrip(".")
        raise AnyshotError(
            f"The device {name!r} is not to be had here ({reason}); use auto or cpu."
        ) from error
