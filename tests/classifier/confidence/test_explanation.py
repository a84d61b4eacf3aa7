"""The gain of more images, against the change of the mean accuracy."""

from __future__ import annotations

import pytest
import torch

from anyshot.classifier.confidence.explanation import MORE_IMAGES, Explanation, accuracy_gain


@pytest.mark.parametrize("way", [2, 5, 30])
def test_gain_is_the_change_of_the_mean_accuracy(way):
    generator = torch.Generator().manual_seed(way)
    expected = torch.rand(way, generator=generator).double()
    counts = torch.randint(1, 40, (way,), generator=generator).double()
    gains = accuracy_gain(expected, counts)
    for c in range(way):
        improved = expected.clone()
        errors = 1 - expected[c]
        improved[c] = 1 - errors * counts[c].sqrt() / (counts[c] + MORE_IMAGES).sqrt()
        assert float(gains[c]) == pytest.approx(float(improved.mean() - expected.mean()))


@pytest.mark.parametrize(("unfamiliarity", "cautious"), [(0.5, False), (1.0, False), (1.01, True)])
def test_only_unfamiliar_tasks_have_a_caution(unfamiliarity, cautious):
    assert bool(Explanation((), 0.5, 0.4, 0.6, unfamiliarity).caution) == cautious
