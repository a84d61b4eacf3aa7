"""Batch norms whose statistics are those of the batch or of its first images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from anyshot.models.batch_norm import batch_norm, batch_norm_by_arithmetic

EPS = 1e-3  #: ε of the batch norm
# calls of a training task, which draw different numbers for dropout; call 0 makes the initial head
QUERY_CALL = 1
FIRST_STEP_CALL = 2
Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Norm:
    """The batch norms of a network with their scales and shifts.

    ``norm(i, y)`` returns scale_i · x̂ + shift_i, where x̂ = (y − mean) / √(var + ε) for each
    channel. Mean and variance are those of the batch; there are no running averages.

    Parameters
    ----------
    shift : sequence of Tensor
        β of each layer, [channels]. Meta-learned; the inner loop does not change it.
    scale : sequence of Tensor, optional
        Scale of each layer, [channels]. Default: 1. TAML's z may act here.
    reference_size : int, optional
        Use the statistics of the first ``reference_size`` images of the batch only.
    constants : dict of str to Tensor
        Buffers and frozen parameters of a module; see :meth:`Body.from_module`.
    seed : int, optional
        A module is in training mode, and its dropout draws from this seed. Default: evaluation.

    Examples
    --------
    >>> import torch
    >>> norm = Norm([torch.zeros(3)])
    >>> normalised = norm(0, torch.randn(8, 3, 5, 5))
    >>> tuple(normalised.shape), normalised.mean((0, 2, 3)).abs().max().item() < 1e-6
    ((8, 3, 5, 5), True)
    """

    shift: Sequence[Tensor]
    scale: Sequence[Tensor] | None = None
    reference_size: int | None = None
    constants: Parameters = field(default_factory=dict)
    seed: int | None = None

    def for_call(self, number: int) -> Norm:
        """The same with another seed for dropout, for one of several calls of a training task."""
        return self if self.seed is None else replace(self, seed=self.seed + number)

    def __call__(self, layer: int, y: Tensor) -> Tensor:
        """Return the normalised, scaled and shifted y, [n, channels, …], of a layer."""
        scale = None if self.scale is None else self.scale[layer]
        return normalise(y, scale, self.shift[layer], self.reference_size)


def normalise(
    y: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    reference_size: int | None = None,
) -> Tensor:
    """Return scale · x̂ + shift, where x̂ = (y − mean) / √(var + ε) for each channel.

    Parameters
    ----------
    y : Tensor
        [n, channels, …].
    scale, shift : Tensor, optional
        [channels]. Defaults: 1 and 0.
    reference_size : int, optional
        Number of leading entries of y whose mean and (biased) variance are used. Default: all.
    """
    if reference_size is None:
        return batch_norm(y, scale, shift, EPS)
    # torch's batch norm does not differentiate through statistics that it is given
    return batch_norm_by_arithmetic(y, scale, shift, EPS, reference_size)
