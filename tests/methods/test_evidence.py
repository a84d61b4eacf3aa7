"""The evidence of held-out support images, against fits without each image."""

import math

import pytest
import torch
import torch.nn.functional as F

from anyshot.core.random import torch_rng
from anyshot.methods.evidence import SHARPNESS, STRENGTHS, evidence_size, held_out_evidence


def brute_force(x: torch.Tensor, labels: torch.Tensor, way: int, strength: float) -> float:
    """Refit ridge regression without each image in turn."""
    x = x / (x**2).sum(1).mean().sqrt()
    targets = F.one_hot(labels, way).double() - 1 / way
    shots = torch.bincount(labels, minlength=way)[labels].double()
    weights = (1 / shots) / (1 / shots).mean()
    by_class: dict[int, list[float]] = {}
    for n in range(len(x)):
        rest = torch.arange(len(x)) != n
        if labels[n] not in labels[rest]:
            continue
        scaled = weights[rest, None] * x[rest]
        w = torch.linalg.solve(
            x[rest].t() @ scaled + strength * torch.eye(x.shape[1]).double(),
            scaled.t() @ targets[rest],
        )
        score = (SHARPNESS * (x[n] @ w)).log_softmax(0)[labels[n]].item()
        by_class.setdefault(int(labels[n]), []).append(score)
    means = [sum(scores) / len(scores) for scores in by_class.values()]
    return sum(means) / len(means) + math.log(way)


def test_evidence_is_that_of_fits_without_each_image():
    x = torch.randn(9, 5, generator=torch_rng(1)).double()
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    found = held_out_evidence(x, labels, 3, (2, 3))
    expected = [brute_force(part, labels, 3, s) for part in (x[:, :2], x[:, 2:]) for s in STRENGTHS]
    scaled = [part / (part**2).sum(1).mean().sqrt() for part in (x[:, :2], x[:, 2:])]
    expected += [brute_force(torch.cat(scaled, 1), labels, 3, s) for s in STRENGTHS]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)
    assert len(found) == evidence_size(2)


def test_a_class_with_one_image_is_left_out_and_one_part_needs_no_sum():
    x = torch.randn(5, 4, generator=torch_rng(2)).double()
    labels = torch.tensor([0, 0, 1, 1, 2])
    found = held_out_evidence(x, labels, 3, (4,))
    assert found.tolist() == pytest.approx([brute_force(x, labels, 3, s) for s in STRENGTHS])


def test_one_image_per_class_is_no_evidence():
    x = torch.randn(3, 4, generator=torch_rng(3))
    assert held_out_evidence(x, torch.arange(3), 3, (1, 3)).tolist() == [0.0] * evidence_size(2)
