"""Which images to label first, against a direct greedy computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyshot.classifier import active_learning
from anyshot.classifier.active_learning import SHARPNESS, choose_images
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.support_set import signed_sqrt_normalize


@pytest.fixture(scope="module")
def adapted():
    rng = np.random.default_rng(0)
    centres = rng.normal(0.8, 0.4, (3, 20))
    labels = torch.arange(9) % 3
    features = np.maximum(centres[labels] + rng.normal(0, 0.4, (9, 20)), 0)
    return Learner().requires_grad_(False).adapt(torch.from_numpy(features).float(), labels)


def pool(n, seed=1):
    return torch.from_numpy(np.abs(np.random.default_rng(seed).normal(0.8, 0.5, (n, 20)))).float()


def greedy(adapted, features, count):
    """Σ_j uncertainty_j · max(k(x, x_j) − covered_j, 0), computed image by image."""
    p = adapted(features).exp().sort(1, descending=True).values
    uncertainty = 1 - (p[:, 0] - p[:, 1])
    rows = signed_sqrt_normalize(features.double()) - adapted.frame.origin
    basis = adapted.frame.basis
    support = adapted.support.z @ basis.t() if basis is not None else adapted.support.z

    def kernel(a, b):
        return float(torch.exp(SHARPNESS * (torch.cosine_similarity(a, b, dim=0) - 1)))

    covered = [max(kernel(x, s) for s in support) for x in rows]
    chosen = []
    for _ in range(count):
        gains = {}
        for i in set(range(len(rows))) - set(chosen):
            new = [max(kernel(rows[i], x) - c, 0) for x, c in zip(rows, covered, strict=True)]
            gains[i] = sum(float(d) * k for d, k in zip(uncertainty, new, strict=True))
        best = max(gains, key=gains.get)
        chosen.append(best)
        covered = [max(c, kernel(rows[best], x)) for x, c in zip(rows, covered, strict=True)]
    return chosen


def test_choices_equal_a_direct_greedy_search(adapted):
    features = pool(12)
    assert choose_images(adapted, features, 5) == greedy(adapted, features, 5)


def test_no_image_is_chosen_twice_even_if_all_are_equal(adapted):
    features = pool(1).expand(6, 20)
    assert sorted(choose_images(adapted, features, 6)) == list(range(6))


def test_all_images_are_returned_if_there_are_few(adapted):
    assert sorted(choose_images(adapted, pool(4), 10)) == list(range(4))


def test_only_the_most_uncertain_of_many_are_considered(adapted, monkeypatch):
    monkeypatch.setattr(active_learning, "MAX_IMAGES", 3)
    features = pool(20)
    p = adapted(features).exp().sort(1, descending=True).values
    most_uncertain = set((p[:, 1] - p[:, 0]).argsort(descending=True)[:3].tolist())
    assert set(choose_images(adapted, features, 10)) == most_uncertain
