"""How the engine's loops are compiled (Numba, an optional extra)."""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray
compiled = numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")  #: kept on disk
