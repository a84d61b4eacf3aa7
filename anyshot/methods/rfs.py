"""RFS: logistic regression on the features of a pre-trained body."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from torch import Tensor

from anyshot.methods.embedding_method import EmbeddingMethod


class RFS(EmbeddingMethod):
    """Rethinking few-shot image classification (Tian et al., ECCV 2020).

    https://arxiv.org/abs/2003.11539

        min_{W, b}  Σ_n CE(W x̂_n + b, y_n) + ½ ‖W‖² / C,    x̂ = f(x) / ‖f(x)‖,    C = 1

    The body comes from pre-training (`anyshot train --from`), and nothing is meta-learned. The head
    is fitted to each task by L-BFGS.
    """

    strength = 1.0  #: C, as in scikit-learn's LogisticRegression

    def fit(self, features: Tensor, labels: Tensor, way: int) -> Callable[[Tensor], Tensor]:
        x = F.normalize(features.detach()).double().cpu()
        y = labels.cpu()

        def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            head = torch.from_numpy(flat).view(way, -1)
            weight, bias = head[:, :-1], head[:, -1]
            logits = x @ weight.t() + bias
            error = logits.softmax(1) - F.one_hot(y, way)
            loss = F.cross_entropy(logits, y, reduction="sum") + (weight**2).sum() / (
                2 * self.strength
            )
            slope = error.t() @ x + weight / self.strength
            gradient = torch.cat([slope, error.sum(0)[:, None]], 1)
            return loss.item(), gradient.flatten().numpy()

        start = np.zeros(way * (x.shape[1] + 1))
        result = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B")
        head = torch.from_numpy(result.x).view(way, -1).to(features)
        return lambda query: F.normalize(query) @ head[:, :-1].t() + head[:, -1]
