"""ANIL: MAML whose inner loop adapts the head only."""

from __future__ import annotations

from anyshot.methods.maml import MAML
from anyshot.models.network import HEAD_PARAMETERS, Parameters


class ANIL(MAML):
    """Almost no inner loop (Raghu, Raghu, Bengio and Vinyals, ICLR 2020).

    https://arxiv.org/abs/1909.09157

        θ_k = θ_{k−1} − α ∇ mean CE(θ_{k−1})   for the head;    the body stays at its learned start

    The body is learned so that a few steps on the head suffice. It shows how much of MAML's success
    is feature reuse.
    """

    def rates(self) -> Parameters:
        return {
            name: rate if name in HEAD_PARAMETERS else 0 * rate
            for name, rate in super().rates().items()
        }
