"""Which module does the operations on images: :mod:`.torch_ops`, or :mod:`.numba_ops` where it can.

Both have the same functions, and the engine uses them through a variable ``ops``. The environment
variable ``ANYSHOT_NUMBA=0`` switches the compiled kernels off, ``ANYSHOT_NUMBA=check`` compiles
them with a bounds check for every index.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import threading
from types import ModuleType

from torch import Tensor

from anyshot.inner_loop.engine import torch_ops

log = logging.getLogger(__name__)
_import_lock = threading.Lock()


def choose_backend(weights: list[Tensor]) -> ModuleType:
    """The module with the operations for convolutions with these weights."""
    if weights[0].device.type != "cpu":
        return torch_ops
    module = numba_backend()
    if module is torch_ops:
        return torch_ops
    reason = module.unsupported_reason(weights)
    if reason is None:
        return module
    _log_fallback(reason)
    return torch_ops


@functools.cache  # one line for each reason
def _log_fallback(reason: str) -> None:
    log.warning(
        "Falling back from the compiled kernels to torch operators (slower, same results): %s.",
        reason,
    )


def numba_backend() -> ModuleType:
    """:mod:`.numba_ops` if Numba is installed and not switched off, else :mod:`.torch_ops`."""
    with _import_lock:  # several workers may call this at the same time
        return _import_numba_ops()


@functools.cache
def _import_numba_ops() -> ModuleType:
    if os.environ.get("ANYSHOT_NUMBA", "1") == "0":
        return torch_ops
    try:
        module = importlib.import_module("anyshot.inner_loop.engine.numba_ops")
    except ImportError as error:
        log.info(
            "Without compiled kernels the engine is less than half as fast: %s. "
            "Install anyshot[fast].",
            error,
        )
        return torch_ops
    module.announce_compilation()
    return module
