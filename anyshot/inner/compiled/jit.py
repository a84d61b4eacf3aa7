"""How the engine's loops are compiled (Numba, an optional extra) and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

Array = np.ndarray


def _sources() -> str:
    """A fingerprint of all files with compiled loops."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


_stamp = _sources()


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code; kept on disk until a file in this folder changes.

    Numba itself looks only at the file that the function stands in. Loops here call loops and take constants from other
    files, and old machine code for another layout of memory would write where it should not.
    """
    dispatcher: Any = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")(function)
    try:
        dispatcher._cache._cache_file._source_stamp = _stamp
    except AttributeError as error:
        raise ImportError(f"Numba {numba.__version__} keeps compiled code in a way that is not known here") from error
    return dispatcher


def kept(loop: Any) -> bool:
    """Whether machine code of the loop, for some kind of arguments, is on disk and up to date."""
    return bool(loop._cache._cache_file._load_index())
