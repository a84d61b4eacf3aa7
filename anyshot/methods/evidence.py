"""Evidence of a task about its features: how well each part predicts support images left out.

Ridge regression on one part of the features, with class-balanced weights w and targets T = one-hot
labels − 1/C, predicts every support image with that image left out, in closed form:

    A = K + λ diag(1/w),    T̂_n = T_n − (A⁻¹ T)_n / (A⁻¹)_nn,    K = X Xᵀ / mean_n ‖x_n‖²
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

STRENGTHS = (0.3, 3.0)  #: λ: closer to the support images, closer to the prior
SHARPNESS = 4.0  #: of the softmax that turns T̂ into probabilities


def evidence_size(parts: int) -> int:
    """Length of the evidence: each part, and all together if there are several, at each λ."""
    return len(STRENGTHS) * (parts + (parts > 1))


@torch.no_grad()
def held_out_evidence(features: Tensor, labels: Tensor, way: int, widths: Sequence[int]) -> Tensor:
    """Mean log-probability of held-out support images, minus that of guessing.

    Classes count alike. A class with one image has no held-out image; if all have one, the evidence
    is 0.

    Parameters
    ----------
    features : Tensor, float [N, width]
        Centred support features.
    labels : Tensor, int64 [N]
    way : int
    widths : sequence of int
        Widths of the parts of the features.

    Returns
    -------
    Tensor, float [evidence_size(parts)]
        λ varies fastest.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.1], [1.1, -0.1], [-1.0, 0.1], [-1.1, -0.1]])
    >>> first, second = held_out_evidence(x, torch.tensor([0, 0, 1, 1]), 2, (1, 1))[[0, 2]]
    >>> bool(first > 0.5), bool(second < 0)  # the first feature tells the classes apart
    (True, True)
    """
    shots = torch.bincount(labels, minlength=way)
    held_out = (shots > 1)[labels].to(features)
    if not held_out.any():
        return features.new_zeros(evidence_size(len(widths)))
    balanced = 1 / shots[labels].to(features)
    targets = F.one_hot(labels, way).to(features) - 1 / way
    ridge = torch.diag(balanced.mean() / balanced)
    kernels = [_scaled_kernel(part) for part in features.split(list(widths), 1)]
    if len(kernels) > 1:
        kernels.append(torch.stack(kernels).mean(0))
    systems = torch.stack([kernel + s * ridge for kernel in kernels for s in STRENGTHS])
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(systems))  # [evidence, N, N]
    left_out = targets - inverse @ targets / inverse.diagonal(dim1=1, dim2=2)[..., None]
    scores = (SHARPNESS * left_out).log_softmax(2)[:, torch.arange(len(labels)), labels]
    weights = balanced * held_out
    return scores @ weights / weights.sum() + math.log(way)


def _scaled_kernel(features: Tensor) -> Tensor:
    """Inner products [N, N], of mean 1 on the diagonal."""
    kernel = features @ features.t()
    return kernel / kernel.diagonal().mean().clamp_min(torch.finfo(kernel.dtype).tiny)
