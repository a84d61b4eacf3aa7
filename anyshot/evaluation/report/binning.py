"""Group values by size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ratio_bins(sizes: ArrayLike, bins: int) -> list[NDArray[np.bool_]]:
    """Divide the range of ``sizes`` [n] into ``bins`` bins of equal ratio.

    Returns a mask [n] for each bin that is not empty, from small to large sizes.

    >>> [mask.tolist() for mask in ratio_bins([1, 2, 20, 100], 2)]
    [[True, True, False, False], [False, False, True, True]]
    """
    x = np.asarray(sizes, float)
    if not x.size:
        return []
    edges = np.geomspace(x.min(), x.max() * (1 + 1e-9), bins + 1)
    index = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    return [index == b for b in range(bins) if (index == b).any()]
