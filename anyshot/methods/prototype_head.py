"""Class means (prototypes) and a linear head that starts from them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.builtin_options import MetaSGDOptions
from anyshot.models.network import Parameters

INITIAL_SCALE = 0.1  #: of the logits of a prototype head; learned


def prototypes(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean feature p_c of each class, [way, width], from features [N, width] and labels [N]."""
    members = F.one_hot(labels, way).t().to(features)
    return (members / members.sum(1, keepdim=True)) @ features


class PrototypeHead(nn.Module):
    """Initial head of class means, so that a class with one image weighs as much as any other.

    With m the mean of the class means p_c:

        d_c = N_c / (N_c + κ) (p_c − m),    W_c = s d_c,    b_c = −s ⟨d_c, m + ½ d_c⟩

    The logits are −½ s ‖f − p_c‖² without the terms that all classes share. The scale s is learned.
    So is the shrinkage κ, in images, with ``head="shrunk-prototypes"``; otherwise κ = 0. With
    features of several parts (:attr:`anyshot.Body.parts`) each feature has its own scale.
    """

    def __init__(self, options: MetaSGDOptions, widths: Sequence[int] = ()) -> None:
        super().__init__()
        shape = (sum(widths),) if widths else ()
        scale = INITIAL_SCALE / max(1, len(widths))
        self.log_scale = nn.Parameter(torch.full(shape, scale).log())
        shrunk = options.head == "shrunk-prototypes"
        self.log_kappa = nn.Parameter(torch.tensor(options.head_kappa).log()) if shrunk else None

    def forward(self, features: Tensor, labels: Tensor, way: int) -> Parameters:
        """Head weight [way, width] and bias [way] from support features [N, width], labels [N]."""
        p = prototypes(features, labels, way)
        m = p.mean(0)
        d = p - m
        if self.log_kappa is not None:
            shots = torch.bincount(labels, minlength=way).to(d)
            d = d * (shots / (shots + self.log_kappa.exp()))[:, None]
        s = self.log_scale.exp()
        if s.dim():
            return {"head_weight": s * d, "head_bias": -(s * d * (m + 0.5 * d)).sum(1)}
        return {"head_weight": s * d, "head_bias": -s * (d * (m + 0.5 * d)).sum(1)}
