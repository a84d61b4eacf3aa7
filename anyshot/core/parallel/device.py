"""Choose the device of a computation. Results on different devices differ only by rounding."""

from __future__ import annotations

import torch

from anyshot.core.errors import SettingsError
from anyshot.core.parallel.ranks import local_rank


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of that name.

    Parameters
    ----------
    name : str
        "auto" (CUDA if available, else the CPU) or any device name of torch. Apple's "mps" is never
        chosen by "auto", because it lacks some second derivatives. If several ranks run on a
        machine, "cuda" is a different GPU for each rank.

    Raises
    ------
    SettingsError
        If the device is not available.

    Examples
    --------
    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    number, ranks = local_rank()
    if name == "cuda" and ranks > 1:
        gpus = torch.cuda.device_count()
        if 0 < gpus < ranks:
            raise SettingsError(
                f"This machine has {gpus} GPUs for {ranks} ranks; start torchrun with "
                f"--nproc-per-node {gpus}, or use --device cpu."
            )
        name = f"cuda:{number}"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
        reason = str(error).splitlines()[0].rstrip(".")
        raise SettingsError(
            f"Device {name!r} is not available ({reason}); use auto or cpu."
        ) from error
