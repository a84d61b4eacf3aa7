"""The running average of parameters: often better than where the last steps have left them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def update_ema(average: Iterable[Tensor], now: Iterable[Tensor], decay: float, steps: int) -> None:
    """average ← d · average + (1 − d) · now, in place, with d = min(decay, (1 + steps) / (10 + steps)): a young average
    does not hold on to the start.

    >>> mean = torch.zeros(1)
    >>> average_in([mean], [torch.ones(1)], 0.9, steps=1000)
    >>> mean
    tensor([0.1000])
    """
    weight = 1 - min(decay, (1 + steps) / (10 + steps))
    for mean, value in zip(average, now, strict=True):
        mean.lerp_(value, weight)
