"""RFS: logistic regression on the features of a pre-trained body."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.remedy import LOSSES, OVERSAMPLING, WEIGHTING
from anyshot.inner_loop.focal import focal_loss, focal_slope
from anyshot.methods.embedding_method import EmbeddingMethod


class RFS(EmbeddingMethod):
    """Rethinking few-shot image classification (Tian et al., ECCV 2020).

    https://arxiv.org/abs/2003.11539

        min_{W, b}  Σ_n CE(W x̂_n + b, y_n) + ½ ‖W‖² / C,    x̂ = f(x) / ‖f(x)‖,    C = 1

    The body comes from pre-training (`anyshot train --from`), and nothing is meta-learned. The head
    is fitted to each task by L-BFGS. Remedies against uneven classes change the cross-entropy.
    """

    remedies = (*OVERSAMPLING, *WEIGHTING, *LOSSES)

    strength = 1.0  #: C, as in scikit-learn's LogisticRegression

    def learning_rate_multipliers(self) -> dict[str, float]:
        """0: training leaves the body as it is (and may store batch-norm statistics)."""
        return dict.fromkeys((name for name, _ in self.named_parameters()), 0.0)

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        from scipy.optimize import minimize  # slow to import

        x = F.normalize(features.detach()).double().cpu()
        y = labels.cpu()
        shots = torch.bincount(y, minlength=way).to(x)
        factors, offset = self.remedy.class_factors(shots), self.remedy.logit_offset(shots)
        gamma = self.remedy.focal
        sizes = torch.ones_like(x[:, 0]) if factors is None else factors[y]

        def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            head = torch.from_numpy(flat).view(way, -1)
            weight, bias = head[:, :-1], head[:, -1]
            logits = x @ weight.t() + bias + (0 if offset is None else offset)
            losses = F.cross_entropy(logits, y, reduction="none")
            slopes = sizes * focal_slope(losses, gamma) if gamma else sizes
            error = slopes[:, None] * (logits.softmax(1) - F.one_hot(y, way))
            fit = sizes @ (focal_loss(losses, gamma) if gamma else losses)
            loss = fit + (weight**2).sum() / (2 * self.strength)
            slope = error.t() @ x + weight / self.strength
            gradient = torch.cat([slope, error.sum(0)[:, None]], 1)
            return loss.item(), gradient.flatten().numpy()

        start = np.zeros(way * (x.shape[1] + 1))
        result = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B")
        head = torch.from_numpy(result.x).view(way, -1).to(features)
        return lambda query: F.normalize(query) @ head[:, :-1].t() + head[:, -1]
