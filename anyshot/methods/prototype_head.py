"""Where a head can start: at the class means, so that a class of one image has a say beside one of fifty."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.core.settings import MethodSettings
from anyshot.models.network import Parameters


def prototypes(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """p_c, the mean feature of each class, [way, features]."""
    members = F.one_hot(labels, way).t().to(features)
    return (members / members.sum(1, keepdim=True)) @ features


class PrototypeHead(nn.Module):
    """logits = −½ s ‖f − p_c‖², less what all classes share: with m the mean of the class means,

        d_c = N_c / (N_c + κ) (p_c − m),    W_c = s d_c,    b_c = −s ⟨d_c, m + ½ d_c⟩

    The scale s is learned, and so is κ, how many images the common mean is worth (0 unless the means are shrunk).
    """

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(settings.head_scale).log())
        shrunk = settings.head == "shrunk-prototypes"
        self.log_kappa = nn.Parameter(torch.tensor(settings.head_kappa).log()) if shrunk else None

    def forward(self, features: Tensor, labels: Tensor, way: int) -> Parameters:
        """The head's weight [way, width] and bias [way] from the support's features [N, width] and labels [N]."""
        p = prototypes(features, labels, way)
        m = p.mean(0)
        d = p - m
        if self.log_kappa is not None:
            shots = torch.bincount(labels, minlength=way).to(d)
            d = d * (shots / (shots + self.log_kappa.exp()))[:, None]
        s = self.log_scale.exp()
        return {"head_weight": s * d, "head_bias": -s * (d * (m + 0.5 * d)).sum(1)}
